"""The model returns the activation, and the caller registers the hook."""

import torch

import framejit

gradients = []


@framejit.compile
def first(x):
    return torch.tanh(x)


@framejit.compile
def second(hidden):
    return (hidden * 2).sum()


def step(x):
    gradients.clear()
    hidden = first(x)
    hidden.register_hook(gradients.append)
    second(hidden).backward()
    return gradients[0]


result = step(torch.arange(3.0, requires_grad=True))
