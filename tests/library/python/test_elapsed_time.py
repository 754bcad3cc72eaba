"""Differences of times that a clock gives, which the program asks at graph breaks."""

from __future__ import annotations

import copy
import datetime
import pickle
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framejit

START = datetime.datetime(2024, 2, 28, 23, 59, 58, 999_999)
STEPS = [datetime.timedelta(microseconds=number) for number in (1, 1_500_000, 59_999_999, 5 * 3600 * 10**6, -7 * 60 * 10**6)]
UTC = datetime.timezone.utc
NOW: list[datetime.datetime] = []
"""The times that the clock gives, the last one first."""


@framejit.disable
def clock() -> datetime.datetime:
    return NOW.pop()


def length(x: torch.Tensor) -> Any:
    before = clock()
    x = x * 2
    took = clock() - before
    return x, took.total_seconds(), took.days, took.seconds, took.microseconds, (before - before).total_seconds()


def comparisons(x: torch.Tensor) -> Any:
    before, after = clock(), clock()
    took = after - before
    slow = took > datetime.timedelta(seconds=1), datetime.timedelta(0) <= took, took == took, took != datetime.timedelta(hours=5), bool(took)
    return x + 1, slow, after > before, after == before, after != before, before <= after, took == 3, after == "now"


def ratios(x: torch.Tensor) -> Any:
    negated, took, second = -(clock() - clock()), clock() - clock(), datetime.timedelta(seconds=1)
    return x, negated, took / second, took // second, took % second, took * 2, took + took, second / took if took else None


def the_difference_itself(x: torch.Tensor) -> Any:
    took = clock() - clock()
    kept = types.SimpleNamespace(took=took, both=[took, took])
    texts = f"{took}", str(took), repr(took)
    return x + 1, kept, kept.both[0] is kept.took, {took: 1}, texts, isinstance(took, datetime.timedelta), copy.deepcopy(took), pickle.dumps(took)


def text(x: torch.Tensor) -> Any:
    before = clock()
    loss = (x * 3).sum()
    return loss, f"{(clock() - before).total_seconds():.2f} s"


def across_a_break(x: torch.Tensor) -> Any:
    took = clock() - clock()
    framejit.graph_break()
    return x + 1, took, took.total_seconds() > 1


def raised(x: torch.Tensor) -> Any:
    try:
        return clock() - 1
    except TypeError as error:
        return x + 1, str(error)


def with_zones(x: torch.Tensor) -> Any:
    return x, clock().replace(tzinfo=UTC) - clock().replace(tzinfo=UTC), clock().replace(tzinfo=UTC) == clock()


def from_a_constant(x: torch.Tensor) -> Any:
    return x + 1, clock() - START, START - clock(), (clock() - START).total_seconds()


PROGRAMS = [length, comparisons, ratios, the_difference_itself, text, across_a_break, raised, with_zones, from_a_constant]


def outcome(call: Callable[..., Any], times: list[datetime.datetime]) -> Any:
    """The results of as many calls as there are times for."""
    NOW[:] = times[::-1]
    return [repr(call(torch.arange(2.0))) for _ in range(len(times) // 4)]


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs(program: Callable[..., Any], dynamic: bool | None) -> None:
    times = [START]
    for number in range(31):
        times.append(times[-1] + STEPS[number * 7 % 5])
    framejit.reset()
    assert outcome(framejit.compile(program, backend="eager", dynamic=dynamic), times) == outcome(program, times)


@pytest.mark.parametrize("program", [length, text])
def test_a_measured_time_splits_the_graph_at_the_clock_alone(program: Callable[..., Any]) -> None:
    """No other time of the day is compiled again, and neither is another day more than once."""
    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    times = [datetime.datetime(2024, 5, 6, 1, 2, 3, 4) + number * datetime.timedelta(minutes=17, seconds=3.21) for number in range(40)]
    assert outcome(compiled, times) == outcome(program, times)
    found = framejit.statistics()
    assert (found["graph_breaks"], found["recompiles"], found["fallbacks"]) == (2, 0, 0)
    times = [time + datetime.timedelta(days=day) for day in range(1, 9) for time in times[:4]]
    assert outcome(compiled, times) == outcome(program, times)
    assert framejit.statistics()["recompiles"] <= 6


def test_the_real_clock() -> None:
    def program(x: torch.Tensor) -> Any:
        before = datetime.datetime.now()
        x = x * 2
        after = datetime.datetime.now()
        return x, before, after, after - before, (after - before).total_seconds(), after >= before

    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    for _ in range(4):
        x, before, after, took, seconds, in_order = compiled(torch.ones(1))
        assert (took, seconds, in_order, x.item()) == (after - before, (after - before).total_seconds(), True, 2)
    assert framejit.statistics()["graph_breaks"] == 2


def test_a_clock_of_the_program() -> None:
    """A subclass of datetime has its own subtraction."""

    class Stamp(datetime.datetime):
        def __sub__(self, other: Any) -> Any:
            return "subtracted"

    def program(x: torch.Tensor) -> Any:
        before = clock()
        return x + 1, clock() - before, before == Stamp(2024, 1, 1), before - clock()

    stamps = [Stamp(2024, 1, day) for day in range(1, 17)]
    assert outcome(framejit.compile(program, backend="eager"), stamps) == outcome(program, stamps)
