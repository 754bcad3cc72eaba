"""torch's state on a thread and in the process: modes, stacks, hooks, classes of tensors, and framejit's own operators."""
