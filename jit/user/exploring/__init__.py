"""How valid_inputs() explores a program: a file for each part."""
