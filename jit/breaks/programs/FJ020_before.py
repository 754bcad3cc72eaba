"""The names of the terms come from a configuration file, and the terms are variables of a helper."""

import torch

import framejit


def penalty(x, names):
    mean = x.mean()
    largest = x.amax()
    terms = vars()
    return sum(terms[name] for name in names)


@framejit.compile
def loss(x, names):
    return penalty(torch.relu(x), names) * 2


result = loss(torch.arange(3.0), ("mean", "largest"))
