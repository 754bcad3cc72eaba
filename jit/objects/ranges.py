"""Ranges of an int in which something is sure to hold of a number that is computed of it, whichever way the number goes there.

`t * 0.999**t < 360` holds for small and for large steps. The range around the present step is made up of parts: in each of them the bounds of the number,
computed from those of the step, say that it holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from framejit.objects.bounds import Bounds, bounds_of
from framejit.objects.monotone import Arithmetic

MOST_PARTS = 1000
"""So many parts are tried on each side of the present value."""


def bounds_within(number: Arithmetic, leaf: Bounds) -> Bounds | None:
    """Bounds of a number, given those of the one number that it is computed of; None where nothing finite is known."""
    if not number.pending:
        return Bounds(number.value, number.value) if math.isfinite(number.value) else None
    if not number.operands:
        return leaf
    parts = [bounds_within(operand, leaf) for operand in number.operands]
    return None if parts[0] is None or parts[-1] is None else bounds_of(number.operation, parts[0], parts[-1])


def range_around(holds: Callable[[Bounds], bool], value: int, ends: Bounds) -> Bounds | None:
    """A range of ints, between two ends and around a value, in which something holds everywhere; None where it isn't sure of the value itself.

    `holds` says of a part of it whether that is sure.
    """
    if not holds(Bounds(value, value)):
        return None
    return Bounds(farthest(holds, value, int(ends.least), -1), farthest(holds, value, int(ends.greatest), 1))


def farthest(holds: Callable[[Bounds], bool], value: int, end: int, direction: int) -> int:
    """The last int up to which `holds` says so of all parts from a value on. Where it does, the next part is twice as long, else it is half as long."""
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
