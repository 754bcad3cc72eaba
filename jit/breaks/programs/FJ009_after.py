"""Without the decorator, the helper is part of the graph."""

import torch

import framejit


def normalise(x):
    return (x - x.mean()) / x.std()


@framejit.compile
def features(x):
    x = torch.relu(x)
    return normalise(x) * 2


result = features(torch.arange(4.0))
