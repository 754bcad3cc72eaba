"""Pairs from itertools are gone through in a loop that prints them."""

import itertools

import torch

import framejit


@framejit.compile
def distances(points):
    points = points * 2
    total = points.new_zeros(())
    for a, b in itertools.combinations([0, 1, 2], 2):
        print(a, b)
        total = total + (points[a] - points[b]).norm()
    return total


result = distances(torch.arange(6.0).reshape(3, 2))
