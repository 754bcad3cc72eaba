"""A branch of `torch.cond` keeps a tensor in a list. Uncompiled, `torch.cond` refuses such a branch too."""

import torch

import framejit

norms = []


def damped(x):
    norms.append(x.norm())
    return x * 0.5


@framejit.compile
def step(x):
    x = x.tanh()
    return torch.cond(x.sum() > 10, damped, torch.clone, (x,))


result = step(torch.arange(3.0))
