"""A call to `graph_break()` that is left over from debugging."""

import torch

import framejit


@framejit.compile
def gelu(x):
    inner = torch.tanh(x * 0.8)
    framejit.graph_break("to look at inner")
    return x * (inner + 1) / 2


result = gelu(torch.arange(4.0))
