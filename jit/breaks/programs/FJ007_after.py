"""The function asks whether there is a weight, and raises nothing."""

import torch

import framejit


@framejit.compile
def weighted(loss, weights, task):
    loss = loss.square().mean()
    return loss * weights.get(task, 1.0)


result = weighted(torch.arange(4.0), {"boxes": 2.0}, "masks")
