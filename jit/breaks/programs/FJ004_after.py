"""The module is imported by a statement of the program."""

import math

import torch

import framejit


@framejit.compile
def area(radius):
    return radius * radius * math.pi


result = area(torch.tensor([1.0, 2.0]))
