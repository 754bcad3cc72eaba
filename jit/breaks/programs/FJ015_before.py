"""A hook keeps the gradient of an activation, outside the graph."""

import torch

import framejit

gradients = []


@framejit.compile
def model(x):
    hidden = torch.tanh(x)
    hidden.register_hook(gradients.append)
    return (hidden * 2).sum()


def step(x):
    gradients.clear()
    model(x).backward()
    return gradients[0]


result = step(torch.arange(3.0, requires_grad=True))
