"""collections in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any


def count_elements(mapping: MutableMapping[Any, int], iterable: Iterable[Any]) -> None:
    """collections._count_elements, which Counter uses."""
    for element in iterable:
        mapping[element] = mapping.get(element, 0) + 1
