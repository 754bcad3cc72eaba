"""Models of NumPy's scalars, arrays and functions."""
