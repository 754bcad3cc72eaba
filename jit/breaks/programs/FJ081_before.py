"""A parameter is changed in place, where gradients are recorded. The caller catches what torch raises."""

import torch

import framejit


@framejit.compile
def decay(weight, factor):
    factor = factor * 0.5
    try:
        weight.mul_(factor)
    except RuntimeError:
        with torch.no_grad():
            weight.mul_(factor)
    return weight.sum()


result = decay(torch.ones(3, requires_grad=True), torch.tensor(0.5))
