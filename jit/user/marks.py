"""What a program says of the sizes of single tensors: which are to be symbolic, and in which range.

The marks are torch's own attributes, so that torch.compile heeds them too, and framejit those that torch's functions and other libraries have set.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from framejit.directives import untraced
from framejit.errors import BadArgument
from framejit.guards.dynamic import DYNAMIC, RANGES, STATIC_MARK, UNBACKED, WEAK, marks


class Range(NamedTuple):
    """The sizes that a dimension is declared to have; None: no limit."""

    dim: int
    min: int | None
    max: int | None


@untraced
def mark_dynamic(tensor: torch.Tensor, dim: int | Iterable[int], *, min: int | None = None, max: int | None = None) -> None:
    """Have the sizes of these dimensions taken as symbols from the first call on: one compilation serves all sizes from 2 on.

    Calls with a size of 0 or 1 are compiled by themselves.

    Args:
        tensor: an argument of a compiled function, or something that it reaches.
        dim: a dimension, or several; counted from the end where negative.
        min, max: the least and the largest size that there will be, both included.

    Raises:
        BadArgument: there is no such dimension, `min` is greater than `max`, or the dimension is marked as static.
        ConstraintViolation: later, by the call that is compiled: the code needs one particular size, or the size is outside the range.
    """
    for number in numbers(tensor, dim, "mark_dynamic"):
        if number in marks(tensor, STATIC_MARK):
            raise BadArgument(f"mark_dynamic(): dimension {number} is marked as static; a dimension is one or the other")
        for name, bound in (("min", min), ("max", max)):
            if bound is not None and (type(bound) is not int or bound < 0):
                raise BadArgument(f"mark_dynamic(): {name} must be a size; got {bound!r}")
        if min is not None and max is not None and min > max:
            raise BadArgument(f"mark_dynamic(): min={min} is greater than max={max}")
        add(tensor, DYNAMIC, number)
        declared = {known for known in tensor.__dict__.get(RANGES, ()) if known.dim != number}
        setattr(tensor, RANGES, declared | {Range(number, min, max)})


@untraced
def maybe_mark_dynamic(tensor: torch.Tensor, dim: int | Iterable[int]) -> None:
    """Have the sizes of these dimensions taken as symbols, if that is possible: where the code needs one particular size, it is compiled for that.

    `mark_dynamic` raises ConstraintViolation there.

    Raises BadArgument for a dimension that there isn't.
    """
    for number in numbers(tensor, dim, "maybe_mark_dynamic"):
        add(tensor, WEAK, number)


@untraced
def mark_unbacked(tensor: torch.Tensor, dim: int | Iterable[int]) -> None:
    """Have the sizes of these dimensions taken as symbols of which nothing is known: one compilation serves all sizes, 0 and 1 too.

    Where the code asks something of such a size (`if x.size(0) > 4`), the graph breaks, unless a `torch._check` has said it before. Backends
    that don't take such sizes get them as `maybe_mark_dynamic` gives them.

    Raises BadArgument for a dimension that there isn't, or that is marked as static.
    """
    for number in numbers(tensor, dim, "mark_unbacked"):
        if number in marks(tensor, STATIC_MARK):
            raise BadArgument(f"mark_unbacked(): dimension {number} is marked as static; a dimension is one or the other")
        add(tensor, UNBACKED[0], number)


@untraced
def mark_static(tensor: torch.Tensor, dim: int | Iterable[int] | None = None) -> None:
    """Have each size of these dimensions (None: of all) compiled by itself, also where it varies, and with `dynamic=True`.

    Raises BadArgument for a dimension that there isn't, or that is marked as dynamic.
    """
    for number in numbers(tensor, range(tensor.dim()) if dim is None else dim, "mark_static"):
        if number in marks(tensor, DYNAMIC, *UNBACKED):
            raise BadArgument(f"mark_static(): dimension {number} is marked as dynamic; a dimension is one or the other")
        add(tensor, STATIC_MARK, number)


def numbers(tensor: Any, dim: int | Iterable[int], function: str) -> list[int]:
    """The dimensions asked for, counted from the beginning. Raises BadArgument."""
    if not isinstance(tensor, torch.Tensor):
        raise BadArgument(f"{function}() takes a tensor; got {type(tensor).__qualname__}")
    found = []
    for number in [dim] if isinstance(dim, int) else list(dim):
        if type(number) is not int or not -tensor.dim() <= number < tensor.dim():
            raise BadArgument(f"{function}(): there is no dimension {number!r} in a tensor of shape {tuple(tensor.shape)}")
        found.append(number % tensor.dim())
    return found


def add(tensor: torch.Tensor, attribute: str, number: int) -> None:
    """Add a dimension to those that carry a mark."""
    setattr(tensor, attribute, {*tensor.__dict__.get(attribute, ()), number})
