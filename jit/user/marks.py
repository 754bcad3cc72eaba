"""Marks on the sizes of single tensors, which say what sizes are symbolic, and in which range.

The marks are torch's own attributes. So torch.compile reads them too, and framejit reads those that torch's functions and other libraries have set.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from framejit.errors import BadArgument
from framejit.guards.dynamic import DYNAMIC, RANGES, STATIC_MARK, UNBACKED, WEAK, marks
from framejit.said.directives import untraced


class Range(NamedTuple):
    """The range of sizes that a dimension is declared to have. A bound of None means that there is no limit."""

    dim: int
    min: int | None
    max: int | None


@untraced
def mark_dynamic(tensor: torch.Tensor, dim: int | Iterable[int], *, min: int | None = None, max: int | None = None) -> None:
    """Make the sizes of these dimensions symbols from the first call on, so that one compilation serves all sizes from 2 on.

    Calls with a size of 0 or 1 are compiled separately.

    Args:
        tensor: an argument of a compiled function, or a tensor that the function reaches otherwise.
        dim: a dimension, or several. Negative numbers count from the end.
        min, max: the smallest and the largest size that will occur, both included.

    Raises:
        BadArgument: there is no such dimension, `min` is greater than `max`, or the dimension is marked as static.
        ConstraintViolation: raised later, by the call that is compiled, if the code needs one particular size, or the size is outside the range.
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
    """Make the sizes of these dimensions symbols, if that is possible. If the code needs one particular size, it is compiled for that size.

    In that case, `mark_dynamic` raises ConstraintViolation.

    Raises BadArgument for a dimension that doesn't exist.
    """
    for number in numbers(tensor, dim, "maybe_mark_dynamic"):
        add(tensor, WEAK, number)


@untraced
def mark_unbacked(tensor: torch.Tensor, dim: int | Iterable[int]) -> None:
    """Make the sizes of these dimensions symbols about which nothing is assumed, so that one compilation serves all sizes, including 0 and 1.

    Where the code depends on such a size (`if x.size(0) > 4`), the graph breaks, unless a `torch._check` has stated the answer before. For backends
    that don't take such sizes, this is the same as `maybe_mark_dynamic`.

    Raises BadArgument for a dimension that doesn't exist, or that is marked as static.
    """
    for number in numbers(tensor, dim, "mark_unbacked"):
        if number in marks(tensor, STATIC_MARK):
            raise BadArgument(f"mark_unbacked(): dimension {number} is marked as static; a dimension is one or the other")
        add(tensor, UNBACKED[0], number)


@untraced
def mark_static(tensor: torch.Tensor, dim: int | Iterable[int] | None = None) -> None:
    """Compile each size of these dimensions (None: of all dimensions) separately, even if it varies, and even with `dynamic=True`.

    Raises BadArgument for a dimension that doesn't exist, or that is marked as dynamic.
    """
    for number in numbers(tensor, range(tensor.dim()) if dim is None else dim, "mark_static"):
        if number in marks(tensor, DYNAMIC, *UNBACKED):
            raise BadArgument(f"mark_static(): dimension {number} is marked as dynamic; a dimension is one or the other")
        add(tensor, STATIC_MARK, number)


def numbers(tensor: Any, dim: int | Iterable[int], function: str) -> list[int]:
    """The dimensions that `dim` names, counted from the beginning. Raises BadArgument, which names the `function` that was called."""
    if not isinstance(tensor, torch.Tensor):
        raise BadArgument(f"{function}() takes a tensor; got {type(tensor).__qualname__}")
    found = []
    for number in [dim] if isinstance(dim, int) else list(dim):
        if type(number) is not int or not -tensor.dim() <= number < tensor.dim():
            raise BadArgument(f"{function}(): there is no dimension {number!r} in a tensor of shape {tuple(tensor.shape)}")
        found.append(number % tensor.dim())
    return found


def add(tensor: torch.Tensor, attribute: str, number: int) -> None:
    """Add a dimension of a tensor to those that have the mark `attribute`."""
    setattr(tensor, attribute, {*tensor.__dict__.get(attribute, ()), number})
