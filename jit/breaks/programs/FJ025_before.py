"""A compiled function sets the stance for a part of itself."""

import torch

import framejit


@framejit.compile
def evaluate(x):
    x = torch.tanh(x)
    with framejit.set_stance("eager_on_recompile"):
        return x.square().sum()


result = evaluate(torch.arange(3.0))
