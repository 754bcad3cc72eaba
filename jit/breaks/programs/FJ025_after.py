"""The program sets the stance outside of what is compiled, once all kinds of calls have been made."""

import torch

import framejit


@framejit.compile
def evaluate(x):
    x = torch.tanh(x)
    return x.square().sum()


evaluate(torch.arange(3.0))
with framejit.set_stance("eager_on_recompile"):
    result = evaluate(torch.arange(3.0))
