"""A compiled function makes a coroutine, which its caller runs."""

import asyncio

import torch

import framejit


async def head(x):
    return torch.tanh(x) * 2


@framejit.compile
def model(x):
    x = torch.relu(x) + 1
    return head(x)


result = asyncio.run(model(torch.arange(3.0)))
