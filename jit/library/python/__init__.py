"""Models of builtin functions and of the standard library, a file for each module."""
