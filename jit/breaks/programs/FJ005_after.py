"""`torch.where` chooses between the two results inside the graph."""

import torch

import framejit


@framejit.compile
def clip(x):
    norm = x.norm()
    x = torch.where(norm > 1, x / norm, x)
    return x * 2


result = clip(torch.tensor([3.0, 4.0]))
