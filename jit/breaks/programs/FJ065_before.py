"""A function that is differentiated keeps an activation in a list."""

import torch

import framejit

activations = []


def loss(x):
    hidden = torch.tanh(x)
    activations.append(hidden.detach())
    return hidden.square().sum()


@framejit.compile
def gradient(x):
    x = x * 2
    return torch.func.grad(loss)(x) + 1


result = gradient(torch.arange(3.0))
