"""Stand-ins, in plain Python, that the object model itself needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def sequence_iterator(sequence: Any) -> Iterator[Any]:
    """Iterate by `__getitem__` (Objects/iterobject.c: iter_iternext)."""
    index = 0
    while True:
        try:
            item = sequence[index]
        except (IndexError, StopIteration):
            return
        yield item
        index += 1


MISSING = object()


def match_keys(subject: Any, keys: Any) -> Any:
    """Python/ceval.c: match_keys."""
    if not keys:
        return ()
    get = subject.get
    seen = set()
    values = []
    for key in keys:
        if key in seen:
            raise ValueError(f"mapping pattern checks duplicate key ({key!r})")
        seen.add(key)
        value = get(key, MISSING)
        if value is MISSING:
            return None
        values.append(value)
    return tuple(values)
