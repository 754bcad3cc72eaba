"""Tensors, torch's other values, and calls of torch's functions."""
