"""Numbers that rise or fall with one int: comparing such a number is comparing the int with a threshold.

`step / 100 < 1` holds for the ints below some threshold, and for no others, since rounding keeps the order of numbers. The threshold is found by halving,
with Python's own arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

from framejit.objects.bounds import ASCENDING


class Course(IntEnum):
    """How the result of a computation changes where the int that it is computed of grows; it may stay as it is for a while."""

    FALLS = -1
    STAYS = 0
    RISES = 1


Part = tuple[Course | None, Any]
"""An operand: its course, None where that isn't known, and its value in this call."""


def course_of(operation: str, parts: Sequence[Part]) -> Course | None:
    """The course of an operation on one or two operands; None where it isn't known."""
    courses = [course for course, _ in parts if course is not None]
    if len(courses) < len(parts):
        return None
    first, last = courses[0], courses[-1]
    if operation in ASCENDING:
        return first
    if operation in ("+", "min", "max"):
        return together(first, last)
    if operation == "-":
        return together(first, Course(-last))
    if operation in ("*", "/", "//") and last is Course.STAYS:
        return scaled(first, parts[-1][1])
    return scaled(last, parts[0][1]) if operation == "*" and first is Course.STAYS else None


def together(first: Course, last: Course) -> Course | None:
    """The course of what rises and falls with both."""
    if Course.STAYS in (first, last):
        return Course(first + last)
    return first if first is last else None


def scaled(course: Course, factor: Any) -> Course | None:
    """The course of what is multiplied with, or divided by, a number that stays."""
    return Course(course * (1 if factor > 0 else -1)) if factor != 0 and math.isfinite(factor) else None


def first_where_it_changes(outcome: Callable[[int], bool], least: int, greatest: int) -> int | None:
    """The least of some ints for which an outcome is another than for those below; it changes once, or not at all: then None."""
    before = outcome(least)
    if outcome(greatest) == before:
        return None
    while greatest - least > 1:
        middle = (least + greatest) // 2
        if outcome(middle) == before:
            least = middle
        else:
            greatest = middle
    return greatest
