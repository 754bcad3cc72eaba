"""The first step of a new Adam runs uncompiled. Later steps are compiled."""

import torch

import framejit

weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.Adam([weight], lr=0.1)


@framejit.compile(backend="aot_eager")
def step(x):
    loss = (x * weight).square().sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


result = step(torch.ones(3))
