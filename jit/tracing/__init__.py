"""One trace: the VM that objects and the interpreter see, the reasons to stop, and how the frames of a stopped trace continue."""
