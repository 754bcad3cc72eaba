"""A ChainedScheduler makes one step of both."""

import torch
from torch.optim.lr_scheduler import ChainedScheduler, ExponentialLR, StepLR

import framejit

optimizer = torch.optim.SGD([torch.ones(3, requires_grad=True)], lr=0.1)
scheduler = ChainedScheduler([StepLR(optimizer, 1000), ExponentialLR(optimizer, 0.999)])
optimizer.step()


@framejit.compile
def step(x):
    x = torch.tanh(x)
    scheduler.step()
    return x * 2


result = step(torch.ones(3)), optimizer.param_groups[0]["lr"]
