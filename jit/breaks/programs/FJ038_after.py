"""The operations are counted once, of the function that isn't compiled."""

import torch
from torch.utils.flop_counter import FlopCounterMode

import framejit

counts = []


def layer(x, weight):
    return torch.relu(x @ weight)


compiled = framejit.compile(layer)

with FlopCounterMode(display=False) as counter:
    layer(torch.ones(2, 3), torch.ones(3, 4))
counts.append(counter.get_total_flops())
result = compiled(torch.ones(2, 3), torch.ones(3, 4))
