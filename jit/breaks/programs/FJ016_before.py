"""A recurrence is written as a recursion."""

import torch

import framejit


def power(x, n):
    return x if n == 0 else power(x * 0.99 + 0.01, n - 1)


@framejit.compile
def decayed(x):
    return power(x, 250).sum()


result = decayed(torch.arange(3.0))
