"""It asks the tensor whether it requires a gradient, which is known while tracing."""

import torch

import framejit


@framejit.compile
def normalised(x):
    y = x / x.norm()
    if y.requires_grad:
        y = y + 1e-6
    return y.square().sum()


result = normalised(torch.ones(4, requires_grad=True))
