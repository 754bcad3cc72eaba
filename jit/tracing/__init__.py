"""One trace: the VM that objects and interpreter see, where it stops, and what becomes of its frames then."""
