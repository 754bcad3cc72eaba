"""Facts about the program's values and code that are read without running any of the program's code."""
