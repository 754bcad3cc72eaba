"""Functions of NumPy that handle the elements of arrays one by one, in plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy


def ndenumerate(arr: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """numpy.ndenumerate."""
    return elements(numpy.asarray(arr))


def elements(array: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    for index in numpy.ndindex(array.shape):
        yield index, array[index]
