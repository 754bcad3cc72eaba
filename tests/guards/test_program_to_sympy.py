"""Programs of the guard walk as sympy conditions: for all numbers they say what the program does."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
from shape_terms import OF_FLOATS, OF_INTEGERS, grid, s, t
from torch.utils._sympy import functions as shape

from framejit.guards.program_to_sympy import EXPRESSIONS, demands_of
from framejit.guards.shape_program import UntranslatableError, compile_shapes
from framejit.guards.shape_values import value_of
from framejit.guards.shape_vm import OPERATIONS

Eq, Ne, Mod = sympy.Eq, sympy.Ne, shape.PythonMod
CONDITIONS = {
    "bounds": [s >= 2, s <= 10, t < 3],
    "equal": [Eq(s, t)],
    "unequal": [Ne(s, 3), Ne(s, t)],
    "divisible": [Eq(Mod(s, 4), 0), Ne(Mod(t, 3), 1)],
    "either": [sympy.Or(s > 3, t < 0, evaluate=False)],
    "neither": [sympy.Not(sympy.And(s > 3, t < 0, evaluate=False), evaluate=False)],
    "product": [s * t - 2 * s <= 12],
    **{f"{name} is at least one": [expression >= 1] for name, (expression, _) in {**OF_INTEGERS, **OF_FLOATS}.items()},
}

COMPUTES_ALL_CASES = ("where is at least one", "piecewise is at least one")
"""A program refuses numbers for which a case can't be computed, also where another case applies."""


def accepted(conditions: Any, a: int, b: int) -> bool:
    try:
        return all(value_of(condition, {"s": a, "t": b}) for condition in conditions)
    except (ArithmeticError, ValueError):
        return False


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_are_what_the_program_demands(name: str) -> None:
    try:
        program, symbols = compile_shapes(CONDITIONS[name])
    except UntranslatableError:
        pytest.skip("no program computes it")
    found = demands_of(program, symbols)
    assert len(found) == len(program.demands)
    for a, b in grid():
        values = [{"s": a, "t": b}[symbol.name] for symbol in symbols]
        refused = program.failing(values) is not None
        assert accepted(found, a, b) is not refused or (refused and name in COMPUTES_ALL_CASES), (a, b, found)


def test_inputs_may_be_numbers() -> None:
    """Inputs that don't vary are passed as numbers in place of symbols."""
    program, symbols = compile_shapes([s * t >= 6, Eq(Mod(s, 2), 0)])
    assert [symbol.name for symbol in symbols] == ["s", "t"]
    assert set(demands_of(program, [s, sympy.Integer(3)])) == {sympy.Le(6, 3 * s), Eq(Mod(s, 2), 0)}
    assert set(demands_of(program, [sympy.Integer(4), sympy.Integer(3)])) == {sympy.true}


def test_every_operation_has_an_expression() -> None:
    assert EXPRESSIONS.keys() == OPERATIONS.keys()
