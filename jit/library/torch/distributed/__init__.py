"""Distributed tensors as values of a graph."""
