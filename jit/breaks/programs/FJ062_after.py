"""The branches return what the function keeps."""

import torch

import framejit

norms = []


def damped(x):
    return x * 0.5, x.norm()


def unchanged(x):
    return x.clone(), x.norm()


@framejit.compile
def step(x):
    x = x.tanh()
    y, norm = torch.cond(x.sum() > 10, damped, unchanged, (x,))
    norms.append(norm)
    return y


result = step(torch.arange(3.0))
