"""A loop is compiled as a whole. Its iterations are more than the limit, which is set to 200 here."""

import torch

import framejit
from framejit import config


def simulate(x, steps):
    for _ in range(steps):
        x = x + 0.1 * torch.sin(x)
    return x


with config.replace(unroll_limit=200):
    compiled = framejit.compile(simulate)
result = compiled(torch.arange(3.0), 300)
