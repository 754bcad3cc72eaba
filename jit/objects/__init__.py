"""The object model: what the trace knows about Python values. There is a file for each CPython type."""
