"""The parameter is changed inside `torch.no_grad()`."""

import torch

import framejit


@framejit.compile
def decay(weight, factor):
    factor = factor * 0.5
    with torch.no_grad():
        weight.mul_(factor)
    return weight.sum()


result = decay(torch.ones(3, requires_grad=True), torch.tensor(0.5))
