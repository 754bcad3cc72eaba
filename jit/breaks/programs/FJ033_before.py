"""A breakpoint is left in a compiled function."""

import torch

import framejit


@framejit.compile
def model(x):
    hidden = torch.tanh(x)
    breakpoint()
    return hidden.sum()


result = model(torch.arange(3.0))
