"""Going through NumPy's arrays and through tensors that change meanwhile: each item is taken when it is reached, rows are views."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from agreement import tried

import framejit


def running_sum(a: Any) -> Any:
    for i, v in enumerate(a[:-1]):
        a[i + 1] += v
    return a * 1


def overwritten_at_the_first(a: Any) -> Any:
    found = []
    for v in a:
        found.append(v)
        a[:] = 7
    return found


def step_by_step(a: Any) -> Any:
    iterator = iter(a)
    first = next(iterator)
    a *= 2
    return first, next(iterator), list(iterator), next(iterator, "end"), type(iterator).__name__


def pairs(a: Any) -> Any:
    found = []
    for x, y in zip(a, a[::-1]):
        found.append(x + y)
        a[0] += 1
    for x, y in itertools.pairwise(a):
        a += 1
        found.append(x - y)
    return found


def unpacked(a: Any) -> Any:
    x, y, *rest = a
    a[:] = 0
    return x, y, rest, [*a], tuple(a)


def lazily(a: Any) -> Any:
    found = []
    for v in (v * 2 for v in a):
        a[-1] += 1
        found.append(v)
    for v in map(lambda v: v + 1, itertools.chain(a, a)):
        a += 1
        found.append(v)
    return found


def from_the_end(a: Any) -> Any:
    found = []
    for v in reversed(a):
        a[0] += 1
        found.append(v)
    return found


def elements_are_copies(a: Any) -> Any:
    for v in a:
        v += 1
    return a, v


def rows_are_views(m: Any) -> Any:
    for row in m:
        row += 1
        row[0] = 9
    for i, row in enumerate(m[::-1]):
        m[i] += row
    return m, [v for row in m for v in row]


def left_half_way(a: Any) -> Any:
    iterator = iter(a)
    return next(iterator), iterator


def scalars(a: Any) -> Any:
    return tried(iter, a.sum()), tried(list, np.float64(2))


VECTORS = [lambda: np.arange(1.0, 4.0), lambda: np.arange(1.0, 5.0), lambda: np.arange(4)]
FUNCTIONS = [running_sum, overwritten_at_the_first, step_by_step, pairs, unpacked, lazily, from_the_end, elements_are_copies, left_half_way, scalars]


def shown(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [shown(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return type(value).__name__, str(value.dtype), value.tolist()
    return ("iterator", shown(list(value))) if hasattr(value, "__next__") else value


def seen(function: Callable[[Any], Any], makers: list[Callable[[], Any]]) -> Any:
    given = [maker() for maker in makers]
    return [(shown(function(array)), array.tolist()) for array in given]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [*FUNCTIONS, rows_are_views])
def test_items_of_arrays_are_taken_when_they_are_reached(function: Callable[[Any], Any], backend: str) -> None:
    makers = [lambda: np.arange(6.0).reshape(2, 3)] * 2 if function is rows_are_views else VECTORS
    framejit.reset()
    assert seen(framejit.compile(function, backend=backend, fullgraph=function is not scalars), makers) == seen(function, makers)


def rows_of_a_tensor(x: torch.Tensor) -> Any:
    found = []
    for row in x:
        x.add_(1)
        found.append(row + 0)
    first, second, *rest = x
    first.mul_(2)
    iterator = iter(x)
    return found, next(iterator).tolist(), [second + 0, *rest], [row.add_(1) for row, _ in zip(x, x)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_rows_of_tensors_are_views(backend: str) -> None:
    framejit.reset()
    compiled = framejit.compile(rows_of_a_tensor, backend=backend, fullgraph=True)
    x, y = torch.arange(6.0).reshape(3, 2), torch.arange(6.0).reshape(3, 2)
    torch.testing.assert_close((compiled(y), y), (rows_of_a_tensor(x), x), rtol=0, atol=0)
