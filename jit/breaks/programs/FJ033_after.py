"""Without the breakpoint the function is compiled."""

import torch

import framejit


@framejit.compile
def model(x):
    hidden = torch.tanh(x)
    return hidden.sum()


result = model(torch.arange(3.0))
