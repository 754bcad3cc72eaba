"""A function asks whether autograd records it by looking for a node of the graph of gradients."""

import torch

import framejit


@framejit.compile
def normalised(x):
    y = x / x.norm()
    if y.grad_fn is not None:
        y = y + 1e-6
    return y.square().sum()


result = normalised(torch.ones(4, requires_grad=True))
