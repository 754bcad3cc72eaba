"""The function returns the activation beside the loss."""

import torch

import framejit

activations = []


def loss(x):
    hidden = torch.tanh(x)
    return hidden.square().sum(), hidden.detach()


@framejit.compile
def gradient(x):
    x = x * 2
    slope, hidden = torch.func.grad(loss, has_aux=True)(x)
    activations.append(hidden)
    return slope + 1


result = gradient(torch.arange(3.0))
