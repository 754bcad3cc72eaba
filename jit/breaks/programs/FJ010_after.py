"""The coroutine calls a compiled function."""

import asyncio

import torch

import framejit


@framejit.compile
def model(x):
    x = torch.relu(x) + 1
    return torch.tanh(x) * 2


async def answer(x):
    return model(x)


result = asyncio.run(answer(torch.arange(3.0)))
