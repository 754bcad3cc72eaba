"""The module is imported at the top of the file."""

import colorsys

import torch

import framejit


@framejit.compile
def luma(x):
    x = torch.relu(x)
    return x * colorsys.ONE_THIRD


result = luma(torch.arange(3.0))
