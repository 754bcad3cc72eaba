"""Functions of numpy.random that draw an order, implemented with the function that draws a permutation of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def permutation(draw: Callable[[int], Any], array: Any) -> Any:
    """An array's rows in a drawn order."""
    return array[draw(len(array))]


def shuffle(draw: Callable[[int], Any], array: Any) -> None:
    """Reorder an array's rows in a drawn order."""
    array[...] = array[draw(len(array))]


def choice(draw: Callable[..., Any], array: Any, size: Any = None, replace: bool = True) -> Any:
    """Randomly chosen numbers of an array."""
    return array[draw(len(array), size, replace)]
