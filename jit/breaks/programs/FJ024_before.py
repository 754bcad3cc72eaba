"""A call to `skip_frame()` keeps a function from being compiled."""

import torch

import framejit


@framejit.compile
def score(x):
    framejit.skip_frame("too slow to compile")
    return torch.tanh(x).sum()


result = score(torch.arange(3.0))
