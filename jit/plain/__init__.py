"""Library functions written in plain Python, which are traced in place of the C code."""
