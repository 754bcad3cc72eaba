"""The order of iteration of a set of constants, which follows from what was put in and taken out, and from hashes that are others in each process."""

from __future__ import annotations

from typing import Any


def order_after(steps: tuple[tuple[str, Any], ...]) -> tuple[Any, ...]:
    """Return the elements, in order, of a new set after calls of its methods: the name of each and its argument."""
    made: set[Any] = set()
    for method, argument in steps:
        getattr(made, method)(argument)
    return tuple(made)
