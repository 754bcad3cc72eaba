"""bisect in plain Python, with the comparisons that its C code makes (Modules/_bisectmodule.c)."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Any


def said_of_negative_lo() -> str:
    """The C function's own words, which differ between Pythons."""
    try:
        bisect.bisect_left([], 0, -1)
    except ValueError as error:
        return str(error)
    raise AssertionError("no error")


NEGATIVE_LO = said_of_negative_lo()


def bisect_right(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Callable[[Any], Any] | None = None) -> int:
    """The position after all items that aren't greater than `x`."""
    if lo < 0:
        raise ValueError(NEGATIVE_LO)
    end = len(a) if hi is None or hi == -1 else hi
    while lo < end:
        middle = (lo + end) // 2
        item = a[middle] if key is None else key(a[middle])
        if x < item:
            end = middle
        else:
            lo = middle + 1
    return lo


def bisect_left(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Callable[[Any], Any] | None = None) -> int:
    """The position before all items that aren't less than `x`."""
    if lo < 0:
        raise ValueError(NEGATIVE_LO)
    end = len(a) if hi is None or hi == -1 else hi
    while lo < end:
        middle = (lo + end) // 2
        item = a[middle] if key is None else key(a[middle])
        if item < x:
            lo = middle + 1
        else:
            end = middle
    return lo


def insort_right(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Callable[[Any], Any] | None = None) -> None:
    """Insert `x` after the items that are equal to it."""
    a.insert(bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)


def insort_left(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Callable[[Any], Any] | None = None) -> None:
    """Insert `x` before the items that are equal to it."""
    a.insert(bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)
