"""A setting is read from a context variable that holds a dict."""

from contextvars import ContextVar

import torch

import framejit

settings = ContextVar("settings")
settings.set({"scale": 2.0})


@framejit.compile
def scores(x):
    x = torch.tanh(x)
    return x * settings.get()["scale"]


result = scores(torch.arange(3.0))
