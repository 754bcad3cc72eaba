"""A module is imported for the first time inside a compiled function. Later calls have no break there."""

import torch

import framejit


@framejit.compile
def luma(x):
    x = torch.relu(x)
    import colorsys

    return x * colorsys.ONE_THIRD


result = luma(torch.arange(3.0))
