"""The caller reads the setting, and passes the number."""

from contextvars import ContextVar

import torch

import framejit

settings = ContextVar("settings")
settings.set({"scale": 2.0})


@framejit.compile
def scores(x, scale):
    x = torch.tanh(x)
    return x * scale


result = scores(torch.arange(3.0), settings.get()["scale"])
