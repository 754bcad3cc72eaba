"""Facts about numbers that z3 is given are true of Python's numbers."""

from __future__ import annotations

import itertools
import math
import operator
from fractions import Fraction
from typing import Any

import pytest
import z3
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from shape_terms import CONTEXT

from framejit.guards.z3_numbers import FINITE, INFINITE, NAN, Numbers, NumberTerm, bits

profile = settings(max_examples=150, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
FLOATS = (0.0, -0.0, 1.5, -2.5, 1e300, math.inf, -math.inf, math.nan)


@profile
@given(st.fractions(max_denominator=10**6) | st.integers(-(2**70), 2**70).map(Fraction) | st.floats(allow_nan=False, allow_infinity=False).map(Fraction))
@example(Fraction(2**53 + 1))
@example(Fraction(1, 3))
@example(Fraction(5, 2**1080))
@example(Fraction(-(2**1024) + 2**971))
def test_facts_about_rounding_are_true(exact: Fraction) -> None:
    numbers = Numbers(CONTEXT)
    variable = z3.Real("exact", numbers.context)
    result = numbers.rounded(variable)
    solver = z3.Solver(ctx=numbers.context)
    solver.add(numbers.facts)
    assert solver.check(variable == numbers.real(exact), result == numbers.real(Fraction(float(exact)))) == z3.sat


def test_facts_about_rounding_say_something() -> None:
    numbers = Numbers(CONTEXT)
    variable = z3.Real("exact", numbers.context)
    result = numbers.rounded(variable)
    solver = z3.Solver(ctx=numbers.context)
    solver.add(numbers.facts)
    for exact, wrong in [(3, Fraction(4)), (Fraction(5, 2), 2), (Fraction(1, 3), 0), (2**60 + 1, 2**60 + 2**9), (-7, 7), (Fraction(-1, 10**9), 1)]:
        assert solver.check(variable == numbers.real(exact), result == numbers.real(wrong)) == z3.unsat


def test_constants_are_rounded_exactly() -> None:
    numbers = Numbers(CONTEXT)
    assert numbers.rounded(numbers.real(Fraction(1, 10))).as_fraction() == Fraction(0.1)
    assert not numbers.facts


@pytest.mark.parametrize("relation", [operator.eq, operator.lt, operator.le, operator.gt, operator.ge])
def test_floats_compare_as_in_python(relation: Any) -> None:
    numbers = Numbers(CONTEXT)
    for a, b in itertools.product((*FLOATS, 1, 2**53 + 1), repeat=2):
        found = z3.simplify(numbers.compare(relation, term(numbers, a), term(numbers, b)))
        assert z3.is_true(found) is relation(a, b), (a, b)


@pytest.mark.parametrize("operation", [operator.add, operator.mul, operator.truediv])
def test_what_python_computes_of_floats_is_possible(operation: Any) -> None:
    for a, b in itertools.product(FLOATS, repeat=2):
        numbers = Numbers(CONTEXT)
        variables = [numbers.float_variable(name) for name in "ab"]
        nonzero = [z3.Or(variables[1].kind != FINITE, variables[1].value != 0)] if operation is operator.truediv else []
        result = numbers.float_operation("operation", operation, *variables, *nonzero)
        solver = z3.Solver(ctx=numbers.context)
        solver.add(numbers.facts)
        known = [same(numbers, variable, value) for variable, value in zip(variables, (a, b))]
        defined = z3.And(*result.defined, numbers.context)
        if operation is operator.truediv and b == 0:
            assert solver.check(*known, defined) == z3.unsat
        else:
            assert solver.check(*known, defined, same(numbers, result, operation(a, b))) == z3.sat, (a, b)


def same(numbers: Numbers, variable: NumberTerm, value: float) -> Any:
    """That a term is the float `value`."""
    expected = term(numbers, value)
    return z3.And(variable.kind == expected.kind, *([variable.value == expected.value] if math.isfinite(value) else []))


def term(numbers: Numbers, value: float) -> NumberTerm:
    """The term of a Python number."""
    if isinstance(value, int):
        return NumberTerm(numbers.integer(value))
    if math.isfinite(value):
        return numbers.finite(Fraction(value))
    return NumberTerm(numbers.real(0), numbers.integer(NAN if math.isnan(value) else int(math.copysign(INFINITE, value))))


@profile
@given(st.integers(-(2**20), 2**20), st.integers(-(2**20), 2**20))
def test_bits(value: int, mask: int) -> None:
    numbers = Numbers(CONTEXT)
    assert z3.simplify(bits(numbers.integer(value), mask)).as_long() == value & mask
