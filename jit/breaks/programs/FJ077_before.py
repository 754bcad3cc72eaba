"""The first call of a lazy layer, after the model has drawn noise, runs uncompiled. Later calls are compiled."""

import torch

import framejit

layer = torch.nn.LazyLinear(2)


@framejit.compile
def model(x):
    x = x + torch.rand(3)
    return layer(x)


torch.manual_seed(0)
result = model(torch.ones(3)).shape
