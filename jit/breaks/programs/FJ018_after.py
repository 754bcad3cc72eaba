"""The caller takes the batch, and passes it."""

import torch

import framejit


def batches():
    while True:
        yield torch.ones(2, 3)


@framejit.compile
def step(weight, batch):
    weight = weight.tanh()
    return batch @ weight


source = batches()
result = step(torch.arange(3.0), next(source))
