"""The step returns the loss, and its caller prints it."""

import torch

import framejit


@framejit.compile
def step(x, weight):
    loss = (x @ weight).square().mean()
    return loss, loss * 0.5


def logged(x, weight):
    loss, scaled = step(x, weight)
    print(f"loss {loss.item():.2f}")
    return scaled


result = logged(torch.ones(4, 3), torch.ones(3, 2))
