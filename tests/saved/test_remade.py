"""Callables that say how the next process makes them again."""

from __future__ import annotations

import functools

from framejit.saved.remade import made_by, making


def doubled(number: int) -> int:
    return number * 2


def test_a_function_that_wraps_another_is_not_made_as_that_is() -> None:
    """AOTAutograd's functions wrap a graph's code, and have its attributes. They do more than it does."""
    inner = made_by(lambda number: number * 2, int, 5)

    @functools.wraps(inner)
    def outer(number: int) -> int:
        return inner(number) + 1

    assert making(inner) == (int, (5,))
    assert making(outer) is None is making(doubled)
