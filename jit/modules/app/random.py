"""Functions of numpy.random that draw an order, by the one of them that draws the order of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def permutation(draw: Callable[[int], Any], array: Any) -> Any:
    """An array's rows in an order drawn."""
    return array[draw(len(array))]


def shuffle(draw: Callable[[int], Any], array: Any) -> None:
    """Bring an array's rows into an order drawn."""
    array[...] = array[draw(len(array))]


def choice(draw: Callable[..., Any], array: Any, size: Any = None, replace: bool = True) -> Any:
    """Some numbers of an array."""
    return array[draw(len(array), size, replace)]
