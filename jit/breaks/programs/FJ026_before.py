"""A table of positions is computed once for each length, which is noted, and kept by `lru_cache`."""

import functools

import torch

import framejit

lengths = []


@functools.lru_cache
def positions(length):
    lengths.append(length)
    return torch.arange(length) / length


@framejit.compile
def encoded(x):
    x = torch.tanh(x)
    return x + positions(x.shape[0])


result = encoded(torch.zeros(4))
