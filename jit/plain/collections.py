"""collections in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any


def count_elements(mapping: MutableMapping[Any, int], iterable: Iterable[Any]) -> None:
    """collections._count_elements, which Counter uses."""
    for element in iterable:
        try:
            count = mapping.get(element, 0)
        except TypeError as raised:
            error = raised
            break
        mapping[element] = count + 1
    else:
        return
    hash(element)  # C code calls it first: its error doesn't mention a dict
    raise error
