"""The object model: what the trace knows of Python values, a file per CPython type."""
