"""The layer is called once before anything is compiled."""

import torch

import framejit

layer = torch.nn.LazyLinear(2)
layer(torch.ones(3))


@framejit.compile
def model(x):
    x = x + torch.rand(3)
    return layer(x)


torch.manual_seed(0)
result = model(torch.ones(3)).shape
