"""A vector is scaled down where it is too long: an `if` on the data of a tensor."""

import torch

import framejit


@framejit.compile
def clip(x):
    norm = x.norm()
    if norm > 1:
        x = x / norm
    return x * 2


result = clip(torch.tensor([3.0, 4.0]))
