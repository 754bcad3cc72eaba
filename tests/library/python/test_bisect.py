"""bisect in compiled functions, against its C code."""

from __future__ import annotations

import bisect
from typing import Any

import pytest
import torch
from agreement import agree


class Noted:
    """Compares by a number, and notes each comparison."""

    def __init__(self, number: int, log: list[Any]) -> None:
        self.number = number
        self.log = log

    def __lt__(self, other: Noted) -> bool:
        self.log.append((self.number, other.number))
        return self.number < other.number


def search(x: torch.Tensor, numbers: list[float], wanted: float) -> Any:
    found = [bisect.bisect_left(numbers, wanted), bisect.bisect(numbers, wanted), bisect.bisect_right(numbers, wanted, 1, 3)]
    found.append(bisect.bisect_left(numbers, -wanted, key=lambda number: number * 2, hi=-1))
    return x * found[0], found


def insert(x: torch.Tensor, numbers: list[float], wanted: float) -> Any:
    bisect.insort(numbers, wanted)
    bisect.insort_left(numbers, wanted, key=lambda number: -number)
    return x + numbers[0], numbers


def compares(x: torch.Tensor, numbers: list[float], wanted: float) -> Any:
    log: list[Any] = []
    objects = [Noted(int(number), log) for number in numbers]
    return x + bisect.bisect_left(objects, Noted(int(wanted), log)) + bisect.bisect_right(objects, Noted(int(wanted), log), 0, None), log


def fails(x: torch.Tensor, numbers: list[float], wanted: float) -> Any:
    told = []
    for call in (lambda: bisect.bisect(numbers, wanted, -1), lambda: bisect.bisect(numbers, "a"), lambda: bisect.insort((1, 2), 1)):  # type: ignore[arg-type, call-overload]
        try:
            call()
        except (ValueError, TypeError, AttributeError) as error:
            told.append((type(error), str(error)))
    return x, told


@pytest.mark.parametrize("function", [search, insert, compares, fails])
def test_against_the_c_code(function: Any) -> None:
    agree(function, torch.ones(2), [1.0, 2.0, 2.0, 5.0, 9.0], 2.0)
