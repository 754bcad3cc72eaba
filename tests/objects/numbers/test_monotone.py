"""Comparisons and roundings of floats that are computed of one int or float: compiled once for each outcome, which is Python's for all numbers."""

from __future__ import annotations

import math
import random

import pytest
import torch

import framejit
from framejit.objects.numbers.monotone import ROUNDINGS, Course, course_of, first_where_it_changes, float_at, place_of, sides_of

PROGRAMS = [
    lambda n: n / 100 < 1,
    lambda n: 1 > n * 0.01,
    lambda n: 1 - n / 100 >= 0.25,
    lambda n: n * 0.1 > 0.3,
    lambda n: min(1.0, (n + 1) / 10) >= 1.0,
    lambda n: math.sqrt(n + 1) / 3 <= 2.0,
    lambda n: n / 7 + 0.5 * n <= 5.0,
    lambda n: float(n) / 3.0 > 2.0,
    lambda n: (2 * n + 5) / -3 < -4.5,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_comparisons_are_pythons(program) -> None:
    """Ints on both sides of the threshold, huge and negative ones."""

    def step(x, n):
        return x * 2 if program(n) else x - 1

    compiled, graphs = framejit.compile(step, backend="eager", isolate_recompiles=True), framejit.statistics()["graphs"]
    x, draw = torch.ones(2), random.Random(0)
    for n in [5, 6, *range(2, 40), *[draw.randrange(1, 10 ** draw.randrange(1, 19)) for _ in range(20)], 99, 100, 101, 2**62]:
        assert torch.equal(compiled(x, n), step(x, n)), n
    assert framejit.statistics()["graphs"] - graphs <= 4


def test_a_warm_up_compiles_once_for_each_phase() -> None:
    class Trainer:
        step = 0

    def train(trainer, x):
        trainer.step += 1
        rate = 0.1 * trainer.step / 20
        if trainer.step / 20 >= 1:
            rate = 0.1
        return x - rate * x

    ours, eagers = Trainer(), Trainer()
    framejit.reset()
    compiled = framejit.compile(train, backend="eager")
    for _ in range(40):
        assert torch.equal(compiled(ours, torch.ones(3)), train(eagers, torch.ones(3)))
    assert framejit.statistics()["graphs"] <= 4 and not framejit.statistics()["fallbacks"]


OF_FLOATS = [
    lambda x: int(0.05 * 399 / 10 + x),
    lambda x: int(x),
    lambda x: round(x * 3 - 1),
    lambda x: math.floor(-x / 0.3) - math.ceil(x * 0.25),
    lambda x: math.trunc(2.5 - x),
    lambda x: 1 if 0.1 * x + 0.2 < 0.3 else 0,
    lambda x: int(min(x * 10, 2.0)),
]


@pytest.mark.parametrize("program", OF_FLOATS)
def test_roundings_of_floats_that_vary_compile_once_for_each_outcome(program) -> None:
    def step(x, number):
        return x + program(number)

    compiled, graphs = framejit.compile(step, backend="eager", isolate_recompiles=True), framejit.statistics()["graphs"]
    draw = random.Random(0)
    for number in [0.7, 0.6, *[draw.random() for _ in range(30)], 0.5, 1.0, math.nextafter(1.0, 0.0), 0.0, -0.0, 1 / 3]:
        assert torch.equal(compiled(torch.ones(2), number), step(torch.ones(2), number)), number
    assert framejit.statistics()["graphs"] - graphs <= 7
    for number in (-0.5, 1e300, math.inf, math.nan, 2.0**53 + 2, 5):
        assert outcome(compiled, torch.ones(2), number) == outcome(step, torch.ones(2), number), number


def outcome(function, *args) -> object:
    try:
        return function(*args).tolist()
    except (OverflowError, ValueError) as error:
        return repr(error)


@pytest.mark.parametrize("operation", ROUNDINGS)
def test_the_floats_of_which_a_rounding_makes_the_same_int(operation) -> None:
    draw = random.Random(1)
    for number in [0.5, 1.5, 2.5, -0.5, -1.5, 3.0, -3.0, 0.0, -0.0, *[draw.uniform(-4, 4) for _ in range(50)]]:
        whole, sides = sides_of(operation, number)
        for other in (number, whole, whole + 0.5, whole - 0.5, *[math.nextafter(whole + step, end) for step in (-1, -0.5, 0, 0.5, 1) for end in (-9, 9)]):
            fits = all(other >= limit if sign == ">=" else other > limit if sign == ">" else other <= limit if sign == "<=" else other < limit
                       for sign, limit in sides)  # fmt: skip
            assert fits == (ROUNDINGS[operation](other) == whole), (number, other)


def test_floats_in_their_order() -> None:
    numbers = [-2.0**64, -1.5, -5e-324, 0.0, 5e-324, 1.0, math.nextafter(1.0, 2.0), 2.0**64]
    assert [float_at(place_of(number)) for number in numbers] == numbers
    assert place_of(numbers[-2]) - place_of(1.0) == place_of(5e-324) == -place_of(-5e-324) == 1 and place_of(-0.0) == 0
    assert sorted(map(place_of, numbers)) == [place_of(number) for number in numbers]


OTHERS = [
    lambda n: n / 10 * (n / 10) > 4.0,
    lambda n: -(n / 7) + 0.5 * n <= 5.0,
    lambda n: n / 10 - math.sqrt(n) > 0.5,
    lambda n: n / 10 == 0.7,
    lambda n: 10 / n < 2.0,
]


@pytest.mark.parametrize("program", OTHERS)
def test_what_is_no_threshold_is_right_too(program) -> None:
    def step(x, n):
        return x * 2 if program(n) else x - 1

    compiled = framejit.compile(step, backend="eager", isolate_recompiles=True)
    for n in (3, 4, 7, 8, 200):
        assert torch.equal(compiled(torch.ones(2), n), step(torch.ones(2), n))


def test_courses() -> None:
    up, down, level = (Course.RISES, 0), (Course.FALLS, 0), (Course.STAYS, 3)
    assert course_of("+", [up, level]) is course_of("+", [up, up]) is course_of("-", [up, down]) is Course.RISES
    assert course_of("*", [level, down]) is course_of("/", [down, level]) is course_of("-", [level, up]) is Course.FALLS
    assert course_of("/", [up, (Course.STAYS, -2.0)]) is course_of("math.sqrt", [down]) is Course.FALLS
    for unknown in (("-", [up, up]), ("*", [up, up]), ("/", [level, up]), ("*", [up, (Course.STAYS, math.nan)]), ("**", [up, level]), ("+", [up, (None, 0)])):
        assert course_of(*unknown) is None


def test_thresholds() -> None:
    for place in (3, 4, 999, 1000):
        assert first_where_it_changes(lambda n, place=place: n >= place, 2, 1000) == place
    assert first_where_it_changes(lambda n: True, 0, 2**63) is None
