"""Stand-ins, in plain Python, that the object model itself needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def sequence_iterator(sequence: Any) -> Iterator[Any]:
    """Iteration by `__getitem__` (Objects/iterobject.c: iter_iternext)."""
    index = 0
    while True:
        try:
            item = sequence[index]
        except (IndexError, StopIteration):
            return
        yield item
        index += 1
