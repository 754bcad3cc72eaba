"""The number is drawn outside, and there is a graph for each of the two sizes."""

import random

import torch

import framejit


@framejit.compile
def augmented(x, thins_out):
    x = torch.tanh(x)
    if thins_out:
        x = x[::2]
    return x + x.square()


random.seed(0)
result = augmented(torch.arange(3.0), random.random() < 0.5)
