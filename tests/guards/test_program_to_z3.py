"""z3's terms of programs over sizes agree with what the guard walk computes."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import pytest
import z3
from shape_terms import CONTEXT, OF_FLOATS, OF_INTEGERS, grid

from framejit.guards.program_to_z3 import INSTRUCTIONS, demanded
from framejit.guards.shape_program import UntranslatableError, compile_shapes
from framejit.guards.shape_vm import OPERATIONS, ShapeInstruction, ShapeProgram
from framejit.guards.z3_numbers import FINITE, INFINITE, NAN, Numbers, NumberTerm

INTEGERS, FLOATS, TRUTHS = (-7, -2, 0, 1, 3, 8), (-2.5, -0.5, 0.0, 1.0, 3.5, 1e300, math.inf, -math.inf, math.nan), (0, 1)
OF_TRUTHS = {"both", "either", "negation", "need"}
OF_REALS = {"truncate", "floor", "ceiling", "nearest"}


def operands(name: str) -> Any:
    """Values for the operands of an operation."""
    if name == "select":
        return itertools.product(TRUTHS, INTEGERS, INTEGERS)
    values = TRUTHS if name in OF_TRUTHS else FLOATS if name.startswith("float_") or name in OF_REALS else INTEGERS
    return itertools.product(values, repeat=OPERATIONS[name].operands)


def term(numbers: Numbers, value: Any) -> NumberTerm:
    if not isinstance(value, float):
        return NumberTerm(numbers.integer(int(value)))
    if math.isfinite(value):
        return numbers.finite(Fraction(value))
    return NumberTerm(numbers.real(0), numbers.integer(NAN if math.isnan(value) else INFINITE if value > 0 else -INFINITE))


def test_every_operation_has_a_term() -> None:
    assert set(INSTRUCTIONS) == set(OPERATIONS)


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_an_operation_computes_is_possible(name: str) -> None:
    for values in operands(name):
        numbers = Numbers(CONTEXT)
        result = INSTRUCTIONS[name](numbers, *(term(numbers, value) for value in values))
        solver = z3.Solver(ctx=CONTEXT)
        solver.add(numbers.facts)
        defined = z3.And(*result.defined, CONTEXT)
        try:
            expected = OPERATIONS[name].run(*values)
        except (ArithmeticError, ValueError):
            assert solver.check(z3.Not(defined)) == z3.sat, values
            continue
        expected = term(numbers, expected)
        if result.exact:
            assert solver.check(defined, result.value == expected.value) == z3.sat, values
            assert name in ("power", "shift_left", "shift_right", "bit_and", "bit_or", "bit_xor", "common_divisor") or (
                solver.check(defined, result.value != expected.value) == z3.unsat
            ), values
        else:
            is_value = [] if not z3.is_true(z3.simplify(expected.kind == FINITE)) else [result.value == expected.value]
            assert solver.check(defined, result.kind == expected.kind, *is_value) == z3.sat, values


def programs() -> dict[str, tuple[ShapeProgram, tuple[Any, ...], bool]]:
    """Programs that check that an expression is at most 3, with their symbols, and whether z3 knows all that they compute."""
    found = {}
    for exactly, expressions in ((True, OF_INTEGERS), (False, OF_FLOATS)):
        for name, (expression, _) in expressions.items():
            try:
                found[f"{name}, {'exactly' if exactly else 'within limits'}"] = (*compile_shapes([expression <= 3]), exactly)
            except UntranslatableError:
                continue
    return found


PROGRAMS = programs()


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_accept_what_z3_says(name: str) -> None:
    program, symbols, exactly = PROGRAMS[name]
    for a, b in grid(-5, 5):
        values = [a if symbol.name == "s" else b for symbol in symbols]
        numbers = Numbers(CONTEXT)
        conditions = z3.And(*demanded(numbers, program, [term(numbers, value) for value in values]), CONTEXT)
        solver = z3.Solver(ctx=CONTEXT)
        solver.add(numbers.facts)
        accepted = program.failing(values) is None
        said = [solver.check(conditions) == z3.sat, solver.check(z3.Not(conditions)) == z3.sat]
        assert said == [accepted, not accepted] if exactly else said[not accepted], (a, b)


def test_most_expressions_have_programs() -> None:
    assert len(PROGRAMS) > 30


def test_constants_of_every_kind() -> None:
    """x < infinity, x == x where x is nan."""
    program = ShapeProgram(1, (math.inf, math.nan), (ShapeInstruction("float_lt", 0, 1), ShapeInstruction("need", 3)), (None, 0))
    for value, accepted in [(1.5, True), (math.inf, False), (math.nan, False), (-math.inf, True)]:
        numbers = Numbers(CONTEXT)
        conditions = demanded(numbers, program, [term(numbers, value)])
        assert z3.is_true(z3.simplify(z3.And(conditions))) is accepted is (program.failing([value]) is None)
    unequal = ShapeProgram(1, (math.nan,), (ShapeInstruction("need_ne", 1, 1),), (0,))
    numbers = Numbers(CONTEXT)
    assert z3.is_true(z3.simplify(z3.And(demanded(numbers, unequal, [term(numbers, 1.0)]))))
