"""Ranges of an int in which a property certainly holds for a number computed from it, even if that number isn't monotone there.

`t * 0.999**t < 360` holds for small and for large steps. The range around the present step consists of parts: in each of them the property follows from the
bounds of the number, which are computed from those of the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from framejit.objects.numbers.bounds import Bounds, bounds_of
from framejit.objects.numbers.monotone import Arithmetic

MOST_PARTS = 1000
"""The number of parts that are tried on each side of the present value."""


def bounds_within(number: Arithmetic, leaf: Bounds) -> Bounds | None:
    """Bounds of a number, given those of the one number that it is computed from; None if nothing finite is known."""
    if not number.pending:
        return Bounds(number.value, number.value) if math.isfinite(number.value) else None
    if not number.operands:
        return leaf
    parts = [bounds_within(operand, leaf) for operand in number.operands]
    return None if parts[0] is None or parts[-1] is None else bounds_of(number.operation, parts[0], parts[-1])


def range_around(holds: Callable[[Bounds], bool], value: int, ends: Bounds) -> Bounds | None:
    """A range of ints, between two ends and around a value, in which a property holds everywhere; None if it isn't certain for the value itself.

    `holds` says whether it is certain for a part of the range.
    """
    if not holds(Bounds(value, value)):
        return None
    return Bounds(farthest(holds, value, int(ends.least), -1), farthest(holds, value, int(ends.greatest), 1))


def farthest(holds: Callable[[Bounds], bool], value: int, end: int, direction: int) -> int:
    """The last int such that `holds` is true for all parts from a value on. Each time it is, the next part is twice as long, else half as long."""
    reached, length = value, 1
    for _ in range(MOST_PARTS):
        if reached == end:
            break
        length = min(length, abs(end - reached))
        near, far = reached + direction, reached + direction * length
        if holds(Bounds(min(near, far), max(near, far))):
            reached, length = far, 2 * length
        elif length == 1:
            break
        else:
            length //= 2
    return reached
