"""Bounds of arithmetic hold of what Python computes."""

from __future__ import annotations

import math

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from framejit.objects.numbers.bounds import Bounds, bounds_of
from framejit.objects.numbers.numberobject import OPERATIONS

FINITE = st.floats(allow_nan=False, allow_infinity=False) | st.floats(0, 2) | st.integers(-(2**63), 2**63).map(float)
FUNCTIONS = ["math.sqrt", "math.log", "math.log2", "math.log10", "math.log1p", "math.exp", "math.tanh", "math.sin", "math.cos", "abs"]
TWO = ["+", "-", "*", "/", "**", "min", "max", "//", "%"]


def within(ends: Bounds, part: float) -> float:
    """A number between two ends."""
    return min(max(ends.least + part * (ends.greatest / 2 - ends.least / 2) * 2, ends.least), ends.greatest)


@given(st.sampled_from(TWO), st.lists(FINITE, min_size=4, max_size=4), st.floats(0, 1), st.floats(0, 1))
def test_results_lie_between_them(operation: str, numbers: list[float], one: float, other: float) -> None:
    first, last = Bounds(*sorted(numbers[:2])), Bounds(*sorted(numbers[2:]))
    found = bounds_of(operation, first, last)
    assume(found is not None)
    for left, right in [(within(first, one), within(last, other)), (first.least, last.greatest), (first.greatest, last.least)]:
        value = OPERATIONS[operation](left, right)
        assert found.least <= value <= found.greatest


@given(FINITE, FINITE, st.integers(0, 9) | st.floats(-3, 3), st.floats(0, 1))
def test_powers_of_a_fixed_exponent(one: float, other: float, exponent: float, part: float) -> None:
    ends = Bounds(*sorted([one, other]))
    found = bounds_of("**", ends, Bounds(exponent, exponent))
    assume(found is not None)
    for base in (*ends, within(ends, part)):
        assert found.least <= base**exponent <= found.greatest


@given(st.sampled_from(["int", "float", "math.floor", "math.ceil", *FUNCTIONS]), FINITE, FINITE, st.floats(0, 1))
def test_functions_keep_the_order(operation: str, one: float, other: float, part: float) -> None:
    ends = Bounds(*sorted([one, other]))
    found = bounds_of(operation, ends, ends)
    fails = {"math.sqrt": ends.least < 0, "math.log1p": ends.least <= -1, "math.exp": ends.greatest > 709.78}
    fails |= dict.fromkeys(("math.log", "math.log2", "math.log10"), ends.least <= 0)
    assert (found is None) == fails.get(operation, False)
    if found is not None:
        assert found.least <= OPERATIONS[operation](within(ends, part)) <= found.greatest


INTS = st.integers(-(2**63), 2**63) | st.integers(-9, 9)


@settings(suppress_health_check=[HealthCheck.filter_too_much])  # of most divisors that may be 0 nothing is known
@given(st.sampled_from(["//", "%"]), st.lists(INTS, min_size=4, max_size=4), st.data())
def test_quotients_and_remainders_of_ints(operation: str, numbers: list[int], data: st.DataObject) -> None:
    first, last = Bounds(*sorted(numbers[:2])), Bounds(*sorted(numbers[2:]))
    found = bounds_of(operation, first, last)
    assume(found is not None)
    left, right = (data.draw(st.integers(int(ends.least), int(ends.greatest))) for ends in (first, last))
    assert found.least <= OPERATIONS[operation](left, right) <= found.greatest


SHARES = st.floats(0, 1, exclude_min=True)
EXPONENTS = st.integers(0, 2**40) | st.floats(0, 99)


@given(SHARES, SHARES, st.lists(EXPONENTS, min_size=2, max_size=2), st.data())
def test_powers_between_zero_and_one(one: float, other: float, exponents: list[float], data: st.DataObject) -> None:
    base, exponent = Bounds(*sorted([one, other])), Bounds(*sorted(exponents))
    found = bounds_of("**", base, exponent)
    assert found is not None
    for power in (*exponent, data.draw(st.floats(exponent.least, exponent.greatest))):
        assert found.least <= data.draw(st.floats(base.least, base.greatest)) ** power <= found.greatest


def test_of_what_may_fail_there_are_none() -> None:
    assert bounds_of("/", Bounds(1, 2), Bounds(0, 1)) is None
    assert bounds_of("**", Bounds(0.0, 0.5), Bounds(-1, -1)) is None
    assert bounds_of("**", Bounds(-2.0, -1.0), Bounds(0.5, 0.5)) is None
    assert bounds_of("**", Bounds(2.0, 3.0), Bounds(1, 5000)) is None
    assert bounds_of("**", Bounds(-1.0, 1e200), Bounds(2, 2)) is None
    assert bounds_of("**", Bounds(-3.0, 2.0), Bounds(2, 2)) is not None
    assert bounds_of("*", Bounds(0.0, 1e300), Bounds(0.0, 1e300)) is None
    decayed = bounds_of("**", Bounds(0.9, 0.9), Bounds(1, 2**63))
    assert decayed is not None and decayed.least == 0.0 and 0.9 <= decayed.greatest < 0.9 + 1e-12
    assert math.isfinite(decayed.greatest)
