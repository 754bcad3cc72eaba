"""The program goes one way or the other by a number that it has got out of a tensor."""

import torch

import framejit


@framejit.compile
def sparsified(x):
    active = (x > 0).sum().item()
    x = torch.tanh(x)
    if active > 2:
        x = x * 0.5
    return x + active


result = sparsified(torch.arange(4.0))
