"""A loss is printed in the middle of a step."""

import torch

import framejit


@framejit.compile
def step(x, weight):
    loss = (x @ weight).square().mean()
    print(f"loss {loss.item():.2f}")
    return loss * 0.5


result = step(torch.ones(4, 3), torch.ones(3, 2))
