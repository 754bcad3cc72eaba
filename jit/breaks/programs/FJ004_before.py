"""A function runs a text that imports all names of a module."""

import torch

import framejit


@framejit.compile
def area(radius):
    names = {}
    exec("from math import *", names)
    return radius * radius * names["pi"]


result = area(torch.tensor([1.0, 2.0]))
