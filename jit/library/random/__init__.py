"""Random numbers of Python's, NumPy's and torch's generators, drawn by the graph."""
