"""A block is left out at random: which way the program goes depends on a number that is drawn in the graph."""

import random

import torch

import framejit


@framejit.compile
def residual(x):
    x = torch.tanh(x)
    if random.random() < 0.5:
        return x
    return x + x.square()


random.seed(0)
result = residual(torch.arange(3.0))
