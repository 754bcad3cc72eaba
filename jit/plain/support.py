"""Stand-ins, in plain Python, that the object model itself needs."""

from __future__ import annotations

import sys
from typing import Any

from framejit._runtime import Unset

NULL = Unset
"""The content of a field, of an iterator in C, that holds nothing."""
END = object()
"""The result of an iterator's step at its end."""


def made(cls: type, **fields: Any) -> Any:
    """An iterator of a type in C with these fields; library/python/iterators.py has the model."""
    raise AssertionError("made is traced")


class Sequenced:
    """A class for whose instances `iter()` makes an iterator that asks for items by number."""

    def __getitem__(self, index: int) -> Any:
        raise IndexError


SequenceIterator: Any = type(iter(Sequenced()))


def iterator_by_number(sequence: Any) -> Any:
    """`iter` of an object that has items, but no `__iter__` (Objects/iterobject.c: PySeqIter_New)."""
    return made(SequenceIterator, seq=sequence, index=0)


def sequence_step(self: Any) -> Any:
    """Iterate by `__getitem__` (Objects/iterobject.c: iter_iternext)."""
    if self.seq is NULL:
        return END
    if self.index == sys.maxsize:
        raise OverflowError("iter index too large")
    try:
        item = self.seq[self.index]
    except (IndexError, StopIteration):
        self.seq = NULL
        return END
    self.index += 1
    return item


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
