"""Hooks on gradients, modules and saved tensors, and the handles that remove them."""
