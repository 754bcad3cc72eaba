"""The recurrence is a loop."""

import torch

import framejit


def power(x, n):
    for _ in range(n):
        x = x * 0.99 + 0.01
    return x


@framejit.compile
def decayed(x):
    return power(x, 250).sum()


result = decayed(torch.arange(3.0))
