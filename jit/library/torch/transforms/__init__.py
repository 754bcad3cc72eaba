"""torch.func: vmap, grad and their like, and linearize."""
