"""A detached copy is made a leaf in the middle of a graph that AOTAutograd differentiates as a whole."""

import torch

import framejit


@framejit.compile(backend="aot_eager")
def penalty(x, weight):
    features = (x * weight).detach().requires_grad_()
    return (features * 3).square().sum()


result = penalty(torch.ones(3), torch.ones(3, requires_grad=True))
