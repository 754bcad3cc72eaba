"""Without the call there is one graph."""

import torch

import framejit


@framejit.compile
def gelu(x):
    inner = torch.tanh(x * 0.8)
    return x * (inner + 1) / 2


result = gelu(torch.arange(4.0))
