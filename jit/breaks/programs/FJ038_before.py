"""The operations of each call are counted."""

import torch
from torch.utils.flop_counter import FlopCounterMode

import framejit

counts = []


@framejit.compile
def layer(x, weight):
    return torch.relu(x @ weight)


def counted(x, weight):
    with FlopCounterMode(display=False) as counter:
        y = layer(x, weight)
    counts.append(counter.get_total_flops())
    return y


result = counted(torch.ones(2, 3), torch.ones(3, 4))
