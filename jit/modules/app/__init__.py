"""Library functions written in plain Python, traced in place of the C code."""
