"""A compiled function gets its logger from the logging module at each call."""

import logging

import torch

import framejit


@framejit.compile
def model(x):
    hidden = torch.tanh(x)
    log = logging.getLogger("model")
    log.debug("%d rows", x.shape[0])
    return hidden.sum()


result = model(torch.arange(3.0))
