"""Tokens: tensors with a number, through which operators of a graph reach objects that aren't tensors of the graph.

AOTAutograd saves a token for the backward pass like any other tensor; its memory keeps the object that it stands for alive.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from typing import Any

import numpy
import torch


class Number(numpy.ndarray[Any, Any]):
    """The number of a token, which holds the value that the token stands for."""

    stands_for: Any


NUMBERS = itertools.count(1)
KNOWN: weakref.WeakValueDictionary[int, Number] = weakref.WeakValueDictionary()
"""The memory of the existing tokens, by number. It keeps the value that a token stands for alive."""


def token_for(value: Any) -> torch.Tensor:
    """Make a token, a tensor that stands for a value."""
    number = next(NUMBERS)
    array = numpy.array(number).view(Number)
    array.stands_for = value
    KNOWN[number] = array
    return torch.from_numpy(array)


@functools.singledispatch
def standing_for(value: Any) -> torch.Tensor:
    """The tensor that a graph gets for an object that isn't one of its tensors: for a module a token, for a generator its state. Subjects register classes."""
    raise TypeError(f"no tensor stands for a {type(value).__name__} in graphs")


standing_for.register(torch.Tensor, token_for)


def of_token(token: torch.Tensor) -> Any:
    """The value that a token stands for."""
    array = KNOWN.get(int(token))
    if array is None:
        raise RuntimeError("a backward pass can't go on: hooks on saved tensors have put another tensor in the place of a token of the graph's")
    return array.stands_for
