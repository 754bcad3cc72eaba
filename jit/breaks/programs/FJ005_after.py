"""`torch.where` chooses between the two numbers inside the graph."""

import torch

import framejit


@framejit.compile
def clip(x):
    scale = torch.where(x.norm() > 1, 0.5, 1.0)
    return x * scale


result = clip(torch.tensor([3.0, 4.0]))
