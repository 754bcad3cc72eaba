"""Reads the items that exact builtin iterators have yet to give, and the fields of iterators, without advancing them. guards/native/iterators.cpp agrees."""

from __future__ import annotations

import builtins
import gc
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from framejit._runtime import ITERATOR_FIELDS, Unset, iterator_field

LIST_ITERATOR: Any = type(iter([]))
LIST_REVERSE_ITERATOR: Any = type(reversed([]))
TUPLE_ITERATOR: Any = type(iter(()))
RANGE_ITERATOR: Any = type(iter(range(0)))
TEXT_ITERATORS: tuple[Any, ...] = (type(iter("é")), type(iter("")), type(iter(b"")))
ORDERED_ITERATOR: Any = type(iter(OrderedDict()))
DICT_ITERATORS: tuple[Any, ...] = tuple(
    type(make(view({}))) for make in (iter, reversed) for view in (dict.keys, dict.values, dict.items)  # type: ignore[operator]
) + (ORDERED_ITERATOR,)
FORWARD = (LIST_ITERATOR, TUPLE_ITERATOR, *TEXT_ITERATORS)
BACKWARD = (LIST_REVERSE_ITERATOR, reversed)
OVER_SEQUENCES = (RANGE_ITERATOR, *FORWARD, *BACKWARD, *DICT_ITERATORS)
"""Types of iterators whose coming items `upcoming` can read."""
FIELDS: dict[int, tuple[str, ...]] = {id(cls): names for cls, names in ITERATOR_FIELDS.items()}
"""The fields of iterators that consist only of fields, such as "islice.cnt", by the identity of the iterator's type."""


def upcoming(iterator: Any) -> Sequence[Any]:
    """The items that an iterator has yet to give. There are none if it has another type, or would raise."""
    cls = type(iterator)
    if cls in DICT_ITERATORS:
        if not all(has_plain_keys(iterator, over) for over in gc.get_referents(iterator)[:1]):
            return ()
        try:
            return iterator.__reduce__()[1][0]  # type: ignore[no-any-return]  # lists what a copy of the iterator gives
        except RuntimeError:
            return ()
    if cls not in OVER_SEQUENCES:
        return ()
    parts = iterator.__reduce__()
    sequence, index = parts[1][0], (parts[2] if len(parts) > 2 else None) or 0
    if len(parts) == 2 and cls is not RANGE_ITERATOR:
        return ()
    family = next((base for base in (list, tuple, str, bytes, range) if issubclass(type(sequence), base)), None)
    if cls is reversed and type(sequence) is not tuple or family is None:
        return ()
    if cls in BACKWARD:
        return family.__getitem__(sequence, slice(index, None, -1)) if 0 <= index < family.__len__(sequence) else ()  # type: ignore[index,no-any-return]
    return family.__getitem__(sequence, slice(index, None))  # type: ignore[index,no-any-return]


MAPPINGS = (dict, getattr(builtins, "frozendict", dict))
"""The types of mappings that DICT_ITERATORS iterate over."""


def field(iterator: Any, name: str) -> tuple[Any, ...]:
    """A tuple of one item, a field of an iterator. The tuple is empty if there is no such field, or the field is empty.

    "sequence" is the container that an iterator of OVER_SEQUENCES iterates over; "intact" says whether that container, a dict, has kept its size, or, if it is
    an OrderedDict, its keys, of which `upcoming` must know the hashes; "position" is that of a `reversed` that hasn't ended. Other names are those in FIELDS,
    which are those of CPython's sources. The tuple of a zip_longest is copied.
    """
    cls = type(iterator)
    if name in FIELDS.get(id(cls), ()):
        value = iterator_field(iterator, name)
        return () if value is Unset else (value,)
    over = gc.get_referents(iterator)[:1] if cls in OVER_SEQUENCES and cls is not RANGE_ITERATOR else []
    if name == "position":
        parts = iterator.__reduce__() if over and cls is reversed else ()
        return (parts[2] if len(parts) > 2 else -1,) if parts else ()  # Python 3.14 doesn't say so after the last item
    if cls in DICT_ITERATORS:
        over = [mapping for mapping in over if issubclass(type(mapping), MAPPINGS)]
        if name == "intact":
            return tuple(is_intact(iterator, mapping) for mapping in over)
    return tuple(over) if name == "sequence" else ()


def is_intact(iterator: Any, mapping: Any) -> bool:
    """Return whether the dict has as many items as when the iterator over it was made."""
    if not has_plain_keys(iterator, mapping):
        return False
    try:
        iterator.__reduce__()
    except RuntimeError:
        return False
    return True


def has_plain_keys(iterator: Any, mapping: Any) -> bool:
    """Return whether an iterator over a dict runs no code of the program's. One over an OrderedDict looks each key up, for which a hash is computed."""
    return type(iterator) is not ORDERED_ITERATOR or not issubclass(type(mapping), dict) or all(type(key) in (str, int) for key in dict.keys(mapping))
