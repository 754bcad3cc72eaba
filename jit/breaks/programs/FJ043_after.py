"""The logger is made once, outside."""

import logging

import torch

import framejit

log = logging.getLogger("model")


@framejit.compile
def model(x):
    hidden = torch.tanh(x)
    log.debug("%d rows", x.shape[0])
    return hidden.sum()


result = model(torch.arange(3.0))
