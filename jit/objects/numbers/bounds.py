"""The finite bounds of the result of arithmetic, given the bounds of its operands.

The bounds are computed with the same Python operations as the number itself. Rounding keeps the order of numbers, so they hold for rounded results too.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

ROUNDING = 2**-50
"""The largest error of the C library's functions relative to the result: they round well, but not always to the nearest float."""
ASCENDING: dict[str, Callable[[Any], Any]] = {
    "float": float, "int": int, "math.floor": math.floor, "math.ceil": math.ceil, "math.sqrt": math.sqrt, "nearest": round,
}  # fmt: skip
"""Functions that are monotonically increasing."""
NEARLY_ASCENDING: dict[str, Callable[[float], float]] = {
    "math.exp": math.exp, "math.log": math.log, "math.log2": math.log2, "math.log10": math.log10, "math.log1p": math.log1p, "math.tanh": math.tanh,
}  # fmt: skip
"""Functions of the C library that are so except for rounding."""


class Bounds(NamedTuple):
    """The least and the greatest value that a number may have, both finite."""

    least: float
    greatest: float


def bounds_of(operation: str, first: Bounds, last: Bounds) -> Bounds | None:
    """Bounds of an operation on two numbers, or on one, given as both; None if nothing finite is known, or the result may be nan or fail."""
    try:
        found = ends(operation, first, last)
    except (ArithmeticError, ValueError):
        return None
    return found if found is not None and math.isfinite(found.least) and math.isfinite(found.greatest) else None


def ends(operation: str, first: Bounds, last: Bounds) -> Bounds | None:
    """The bounds that follow from the operands' bounds. They may be infinite."""
    if operation in ASCENDING:
        function = ASCENDING[operation]
        return Bounds(function(first.least), function(first.greatest))
    if operation in NEARLY_ASCENDING:
        least, greatest = NEARLY_ASCENDING[operation](first.least), NEARLY_ASCENDING[operation](first.greatest)
        return Bounds(least - abs(least) * ROUNDING, greatest + abs(greatest) * ROUNDING)
    if operation == "round":
        return Bounds(round(first.least, int(last.least)), round(first.greatest, int(last.least)))
    if operation == "abs":
        return Bounds(max(first.least, -first.greatest, 0.0), max(-first.least, first.greatest))
    if operation in ("math.sin", "math.cos"):
        return Bounds(-1.0, 1.0)
    if operation == "+":
        return Bounds(first.least + last.least, first.greatest + last.greatest)
    if operation == "-":
        return Bounds(first.least - last.greatest, first.greatest - last.least)
    if operation == "*" or (operation == "/" and (last.least > 0 or last.greatest < 0)):
        compute = operator.mul if operation == "*" else operator.truediv
        corners = [compute(a, b) for a in first for b in last]
        return Bounds(min(corners), max(corners))
    if operation in ("//", "%") and last.least > 0 and all(type(end) is int for end in (*first, *last)):
        quotients = Bounds(min(first.least // end for end in last), max(first.greatest // end for end in last))
        return quotients if operation == "//" else Bounds(0, last.greatest - 1)
    if operation == "**":
        return bounds_of_power(first, last)
    if operation in ("min", "max"):
        choose = min if operation == "min" else max
        return Bounds(choose(first.least, last.least), choose(first.greatest, last.greatest))
    return None


def bounds_of_power(base: Bounds, exponent: Bounds) -> Bounds | None:
    """Bounds of a power of a positive base, or with a fixed exponent; None for others, which may be complex, and if it may be too large."""
    if base.least <= 0:
        return bounds_of_fixed_power(base, exponent.least) if exponent.least == exponent.greatest else None
    corners = [float(number) ** power for number in base for power in exponent]
    least, greatest = min(corners) * (1 - ROUNDING) - sys.float_info.min, max(corners) * (1 + ROUNDING) + sys.float_info.min
    is_proper = (base.least >= 1 and exponent.greatest <= 0) or (base.greatest <= 1 and exponent.least >= 0)
    return Bounds(max(least, 0.0), min(greatest, 1.0) if is_proper else greatest)


def bounds_of_fixed_power(base: Bounds, exponent: float) -> Bounds | None:
    """Bounds of a power whose exponent is known; None if it may be complex, or divide by zero."""
    is_whole = exponent >= 0 and exponent == int(exponent)
    if not is_whole and base.least < 0 or exponent < 0 and base.least <= 0:
        return None
    least, greatest = sorted((base.least**exponent, base.greatest**exponent))
    if base.least < 0 < base.greatest and exponent % 2 == 0:
        least = 0.0
    lower = least - abs(least) * ROUNDING - sys.float_info.min
    return Bounds(max(lower, 0.0) if least >= 0 else lower, greatest + abs(greatest) * ROUNDING + sys.float_info.min)
