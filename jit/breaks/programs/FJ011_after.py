"""The caller asks for the gradient."""

import torch

import framejit


@framejit.compile
def loss(x, offset):
    x = torch.tanh(x)
    return (x + offset).square().sum()


result = loss(torch.arange(3.0), torch.zeros(3).requires_grad_())
