"""Without the call the function is compiled."""

import torch

import framejit


@framejit.compile
def score(x):
    return torch.tanh(x).sum()


result = score(torch.arange(3.0))
