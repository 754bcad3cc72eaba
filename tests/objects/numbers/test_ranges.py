"""Ranges of an int in which something is sure: of what is computed, it holds there."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import framejit
from framejit.objects.numbers.bounds import Bounds
from framejit.objects.numbers.ranges import range_around


@given(st.integers(-50, 50), st.integers(0, 40), st.integers(0, 40))
def test_the_range_is_that_around_the_value(value: int, below: int, above: int) -> None:
    inside = Bounds(value - below, value + above)
    found = range_around(lambda part: inside.least <= part.least and part.greatest <= inside.greatest, value, Bounds(-60, 60))
    assert found == Bounds(max(inside.least, -60), min(inside.greatest, 60))
    assert range_around(lambda part: part.greatest < value, value, Bounds(-60, 60)) is None


def rectified(t: int) -> float:
    """The step of RAdam."""
    decay = 0.99**t
    most = 2 / (1 - 0.99) - 1
    rho = most - 2 * t * decay / (1 - decay)
    if rho > 5:
        return math.sqrt((1 - decay) * (rho - 4) / (most - 4) * (rho - 2) / rho * most / (most - 2)) / (1 - 0.9**t)
    return 1.0 / (1 - 0.9**t)


SCHEDULES: dict[str, tuple[Callable[[int], float], int]] = {
    "rectified": (rectified, 4),
    "by epochs": (lambda t: 0.95 ** (t // 10), 2),
    "with restarts": (lambda t: 0.5 * (1 + math.cos(math.pi * (t % 20) / 20)), 2),
    "logarithmic": (lambda t: 1 / math.log2(1 + t) + math.log1p(t) - math.tanh(t / 9) + math.log10(t), 2),
    "growing": (lambda t: 0.1 * 2.0**t, 2),
    "up and down": (lambda t: 2.0 if t * 0.9**t < 3 else 1.0, 4),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_compiled_a_few_times(name: str) -> None:
    schedule, graphs = SCHEDULES[name]

    def step(x: Any, state: dict[str, int]) -> Any:
        state["step"] += 1
        return x * schedule(state["step"])

    framejit.reset()
    compiled, x = framejit.compile(step, backend="eager"), torch.ones(2)
    mine, theirs = {"step": 0}, {"step": 0}
    for _ in range(60):
        assert torch.equal(compiled(x, mine), step(x, theirs))
    assert framejit.statistics()["graphs"] <= graphs, framejit.statistics()
