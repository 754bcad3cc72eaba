"""The pairs are put into a list before the loop. The breaks at `print` remain."""

import itertools

import torch

import framejit


@framejit.compile
def distances(points):
    points = points * 2
    total = points.new_zeros(())
    for a, b in list(itertools.combinations([0, 1, 2], 2)):
        print(a, b)
        total = total + (points[a] - points[b]).norm()
    return total


result = distances(torch.arange(6.0).reshape(3, 2))
