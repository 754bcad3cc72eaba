"""NumPy's arrays, and how the graph computes NumPy's functions."""
