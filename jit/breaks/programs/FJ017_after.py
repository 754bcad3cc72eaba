"""The body of the loop is compiled."""

import torch

import framejit
from framejit import config


def advance(x):
    return x + 0.1 * torch.sin(x)


def simulate(x, steps):
    for _ in range(steps):
        x = compiled(x)
    return x


with config.replace(unroll_limit=200):
    compiled = framejit.compile(advance)
result = simulate(torch.arange(3.0), 300)
