"""Attention: the kernels that scaled_dot_product_attention may choose from."""
