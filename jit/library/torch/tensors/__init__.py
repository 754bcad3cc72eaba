"""Tensors as Python objects: how they are made, indexed, copied, and which memory they share."""
