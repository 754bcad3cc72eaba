"""The caller asks the cache, and passes the table."""

import functools

import torch

import framejit

lengths = []


@functools.lru_cache
def positions(length):
    lengths.append(length)
    return torch.arange(length) / length


@framejit.compile
def encoded(x, table):
    x = torch.tanh(x)
    return x + table


x = torch.zeros(4)
result = encoded(x, positions(x.shape[0]))
