"""Jagged nested tensors."""
