"""Small programs whose traces lie beside this file: each shows one idea of the compiler. The docstring is the page's first sentence."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import framejit


def expression(x, n):
    """A number from outside that enters the graph is guarded by its value; what C functions and methods are called is guarded by identity."""
    return (x * n).relu().sum()


class Counter:
    """Holds what `count` changes."""

    def __init__(self):
        self.calls = 0
        self.last = None


def count(x, counter):
    """A counter that nobody looks at is counted on by the replacement code: its type is guarded, its value isn't."""
    counter.calls += 1
    counter.last = x.sin()
    return counter.last + 1


def collect(x, found):
    """Items that are appended to a list from outside are appended to the real list after the graph has run; the list's length isn't guarded."""
    for power in range(3):
        found.append(x**power)
    return {"sum": found[-1].sum()}


def half_way(x):
    """print() is a side effect in the middle: the call is split there, and goes on in a resume function with an entry of its own."""
    y = x.sin()
    print("half way")
    return y.cos()


def outer(x):
    """A break inside a called function: both frames go on in one resume function."""
    return inner(x) * 2


def inner(x):
    y = x + 1
    framejit.graph_break()
    return y * 3


def branch(x):
    """A branch on data splits the call: each way on is a resume function, compiled when it is first taken."""
    if x.sum() > 0:
        return x - 1
    return x + 1


def checked(x, scale=None):
    """An exception that the program handles, and a default: no trace of them is left in the graph."""
    try:
        scale = scale["value"]
    except TypeError:
        scale = 2.0
    return x / scale


class Block(nn.Module):
    """A module: parameters are inputs of the graph, hooks are guarded to be none."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x):
        return torch.relu(self.linear(x))


def x() -> torch.Tensor:
    return torch.tensor([1.0, 2.0, 3.0])


PROGRAMS: dict[str, tuple[Any, Any]] = {
    "expression": (expression, lambda: (x(), 3)),
    "count": (count, lambda: (x(), Counter())),
    "collect": (collect, lambda: (x(), [])),
    "half_way": (half_way, lambda: (x(),)),
    "outer": (outer, lambda: (x(),)),
    "branch": (branch, lambda: (x(),)),
    "checked": (checked, lambda: (x(),)),
    "block": (Block(), lambda: (x(),)),
}
"""By name: a function or module, and what makes the arguments of its one call."""
