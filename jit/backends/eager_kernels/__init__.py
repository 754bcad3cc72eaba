"""Compiled kernels for operators that are called eagerly, outside of any compiled function."""
