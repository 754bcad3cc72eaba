"""torch.distributions: what its Python code asks of C code."""
