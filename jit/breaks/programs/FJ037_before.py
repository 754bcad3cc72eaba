"""A module is imported inside a compiled function, and this is its first import."""

import torch

import framejit


@framejit.compile
def luma(x):
    x = torch.relu(x)
    import colorsys

    return x * colorsys.ONE_THIRD


result = luma(torch.arange(3.0))
