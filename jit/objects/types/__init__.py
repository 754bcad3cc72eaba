"""Python's builtin types, a file for each, with its methods beside it."""
