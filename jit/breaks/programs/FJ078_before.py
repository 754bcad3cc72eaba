"""A step looks at the learning rate that its scheduler has just changed."""

import torch

import framejit

optimizer = torch.optim.SGD([torch.ones(3, requires_grad=True)], lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1000)
optimizer.step()


@framejit.compile
def step(x):
    x = torch.tanh(x)
    scheduler.step()
    return x * 2 if scheduler.get_last_lr()[0] < 0.05 else x * 3


result = step(torch.ones(3))
