"""An input is made a leaf that wants a gradient, inside the compiled function."""

import torch

import framejit


@framejit.compile
def loss(x, offset):
    x = torch.tanh(x)
    return (x + offset.requires_grad_()).square().sum()


result = loss(torch.arange(3.0), torch.zeros(3))
