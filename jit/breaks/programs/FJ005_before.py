"""A vector is scaled by a number that an `if` on the data of a tensor chooses: the two ways leave different values that aren't tensors."""

import torch

import framejit


@framejit.compile
def clip(x):
    scale = 1.0
    if x.norm() > 1:
        scale = 0.5
    return x * scale


result = clip(torch.tensor([3.0, 4.0]))
