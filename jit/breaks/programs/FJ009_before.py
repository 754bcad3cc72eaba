"""A helper is excluded from compilation, though it could be traced."""

import torch

import framejit


@framejit.disable
def normalise(x):
    return (x - x.mean()) / x.std()


@framejit.compile
def features(x):
    x = torch.relu(x)
    return normalise(x) * 2


result = features(torch.arange(4.0))
