"""The leaf is made between two compiled functions."""

import torch

import framejit


@framejit.compile(backend="aot_eager")
def encoded(x, weight):
    return x * weight


@framejit.compile(backend="aot_eager")
def penalty(features):
    return (features * 3).square().sum()


def total(x, weight):
    features = encoded(x, weight).detach().requires_grad_()
    return penalty(features)


result = total(torch.ones(3), torch.ones(3, requires_grad=True))
