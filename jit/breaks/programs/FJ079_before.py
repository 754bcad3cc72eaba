"""Two schedulers change the same learning rate in one call."""

import torch
from torch.optim.lr_scheduler import ExponentialLR, StepLR

import framejit

optimizer = torch.optim.SGD([torch.ones(3, requires_grad=True)], lr=0.1)
schedulers = [StepLR(optimizer, 1000), ExponentialLR(optimizer, 0.999)]
optimizer.step()


@framejit.compile
def step(x):
    x = torch.tanh(x)
    for scheduler in schedulers:
        scheduler.step()
    return x * 2


result = step(torch.ones(3)), optimizer.param_groups[0]["lr"]
