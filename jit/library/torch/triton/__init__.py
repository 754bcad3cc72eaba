"""Launches of Triton kernels."""
