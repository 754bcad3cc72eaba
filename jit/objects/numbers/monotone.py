"""Numbers that are monotone in one int or float: comparing such a number amounts to comparing the int or float with a threshold.

`step / 100 < 1` holds for the ints below some threshold, and for no others, since rounding keeps the order of numbers. The threshold is found by bisection,
with Python's own arithmetic. That `int(x * 10)` is 3 is two such comparisons.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from framejit.objects.numbers.bounds import ASCENDING, Bounds


class Arithmetic(Protocol):
    """A number that is known, a leaf of which only the value in this call is known, or a computation on such numbers."""

    pending: bool
    value: Any
    operation: str

    @property
    def operands(self) -> Sequence[Arithmetic]:
        """The operands of the computation; empty if the number is known, or a leaf."""

    def result(self, *values: Any) -> Any:
        """The result of the operation for other values of its operands."""


class Course(IntEnum):
    """The direction in which the result of a computation changes as its one leaf grows. It may stay the same for a while."""

    FALLS = -1
    STAYS = 0
    RISES = 1


Part = tuple[Course | None, Any]
"""An operand: its course, None if that isn't known, and its value in this call."""


def course_of(operation: str, parts: Sequence[Part]) -> Course | None:
    """The course of an operation on one or two operands; None if it isn't known."""
    courses = [course for course, _ in parts if course is not None]
    if len(courses) < len(parts):
        return None
    first, last = courses[0], courses[-1]
    if operation in ASCENDING or (operation == "round" and last is Course.STAYS):
        return first
    if operation in ("+", "min", "max"):
        return together(first, last)
    if operation == "-":
        return together(first, Course(-last))
    if operation in ("*", "/", "//") and last is Course.STAYS and (operation != "//" or all(type(value) is int for _, value in parts)):
        return scaled(first, parts[-1][1])
    return scaled(last, parts[0][1]) if operation == "*" and first is Course.STAYS else None


def together(first: Course, last: Course) -> Course | None:
    """The course of a number that rises and falls with two others."""
    if Course.STAYS in (first, last):
        return Course(first + last)
    return first if first is last else None


def scaled(course: Course, factor: Any) -> Course | None:
    """The course of a number that is multiplied with, or divided by, a constant factor."""
    return Course(course * (1 if factor > 0 else -1)) if factor != 0 and math.isfinite(factor) else None


def first_where_it_changes(outcome: Callable[[int], bool], least: int, greatest: int) -> int | None:
    """The least of some ints for which an outcome differs from that of those below it. It changes at most once; None if it never does."""
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


def place_of(number: float) -> int:
    """The position of a float in the order of all floats; neighbours differ by one."""
    (bits,) = struct.unpack("<q", struct.pack("<d", number))
    return bits if bits >= 0 else -(bits + 2**63)


def float_at(place: int) -> float:
    """The float at a position in the order of all floats."""
    found: float = struct.unpack("<d", struct.pack("<q", abs(place)))[0]
    return found if place >= 0 else -found


class Threshold(NamedTuple):
    """`below`: the outcome for numbers less than `place`; from `place` on it is the opposite. `place` is None if the outcome never changes."""

    below: bool
    place: float | None


def threshold(outcome: Callable[[Any], bool], ends: Bounds) -> Threshold | None:
    """The threshold of an outcome that changes at most once among the ints or floats in a range. None if it can't be computed everywhere."""
    try:
        below = outcome(ends.least)
        if type(ends.least) is int and type(ends.greatest) is int:
            return Threshold(below, first_where_it_changes(outcome, ends.least, ends.greatest))
        place = first_where_it_changes(lambda place: outcome(float_at(place)), place_of(ends.least), place_of(ends.greatest))
        return Threshold(below, None if place is None else float_at(place))
    except (ArithmeticError, ValueError):
        return None


def leaves_of(number: Arithmetic) -> list[Any]:
    """The unknown numbers that a computation starts from, each once."""
    if not number.pending:
        return []
    found = [leaf for operand in number.operands for leaf in leaves_of(operand)] if number.operands else [number]
    return list({id(leaf): leaf for leaf in found}.values())


def course_with(number: Arithmetic) -> Course | None:
    """Return how a number changes as the one number that it is computed from grows; None if that isn't known."""
    if not number.pending:
        return Course.STAYS
    return course_of(number.operation, [(course_with(operand), operand.value) for operand in number.operands]) if number.operands else Course.RISES


def value_for(number: Arithmetic, leaf: Any) -> Any:
    """The value of a number for another value of the one number that it is computed from. ArithmeticError if anything on the way isn't finite."""
    if not number.pending:
        return number.value
    if not number.operands:
        return leaf
    found = number.result(*[value_for(operand, leaf) for operand in number.operands])
    if not math.isfinite(found):
        raise ArithmeticError
    return found


ROUNDINGS: dict[str, Callable[[float], int]] = {"int": int, "math.trunc": int, "math.floor": math.floor, "math.ceil": math.ceil, "round": round}
"""The functions that round a float to an int."""


def sides_of(operation: str, number: float) -> tuple[int, list[tuple[str, float]]]:
    """The int that a float is rounded to, and the comparisons that characterise the floats which are rounded to the same int."""
    whole = ROUNDINGS[operation](number)
    if operation == "round":  # a half is rounded to the even neighbour
        return whole, [(">=", whole - 0.5), ("<=", whole + 0.5)] if whole % 2 == 0 else [(">", whole - 0.5), ("<", whole + 0.5)]
    above = operation == "math.floor" or (operation != "math.ceil" and whole > 0)
    below = operation == "math.ceil" or (operation != "math.floor" and whole < 0)
    if above or below:
        return whole, [(">=", float(whole)), ("<", whole + 1.0)] if above else [(">", whole - 1.0), ("<=", float(whole))]
    return whole, [(">", -1.0), ("<", 1.0)]
