"""The scheduler makes its step outside the compiled function."""

import torch

import framejit

weight = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)


@framejit.compile
def loss(x):
    x = torch.tanh(x)
    return (x * weight).square().mean()


def validate(x, measured):
    scheduler.step(measured)
    return loss(x)


result = validate(torch.ones(3), 1.0)
