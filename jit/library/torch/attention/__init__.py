"""Attention: flex_attention, and the kernels that scaled_dot_product_attention may choose from."""
