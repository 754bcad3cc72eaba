"""The scheduler makes its step before the compiled function is called."""

import torch

import framejit

optimizer = torch.optim.SGD([torch.ones(3, requires_grad=True)], lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1000)
optimizer.step()


@framejit.compile
def scaled(x, is_low):
    x = torch.tanh(x)
    return x * 2 if is_low else x * 3


def step(x):
    scheduler.step()
    return scaled(x, scheduler.get_last_lr()[0] < 0.05)


result = step(torch.ones(3))
