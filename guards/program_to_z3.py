"""Turns programs over sizes and numbers into z3 terms, so that z3 reasons about the program which the guard walk really runs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import z3

from framejit.guards.shape_vm import FUNCTIONS, LARGEST_IN_FLOAT, OPERATIONS, ShapeProgram
from framejit.guards.z3_numbers import (
    INFINITE,
    NAN,
    Numbers,
    NumberTerm,
    absolute,
    ceiling,
    floor_division,
    made_integer,
    magnitude,
    modulo,
    needs,
    negated,
    nonzero,
    rounded_to_even,
    truncated,
)

Instruction = Callable[..., NumberTerm]
"""A function that makes the term of an operation from the terms of its operands. Conditions are 1 or 0."""


def demanded(numbers: Numbers, program: ShapeProgram, inputs: Sequence[NumberTerm]) -> list[Any]:
    """Terms that hold for all inputs that a program accepts: its demands hold, and everything that they need can be computed."""
    registers = [*inputs, *(_constant(numbers, value) for value in program.constants)]
    conditions: list[Any] = []
    for (name, *operands), origin in zip(program.instructions, program.origins, strict=True):
        result = INSTRUCTIONS[name](numbers, *(registers[operand] for operand in operands[: OPERATIONS[name].operands]))
        conditions += result.defined
        if origin is not None:
            conditions.append(result.value != 0)
        registers.append(NumberTerm(result.value, result.kind))
    return conditions


def _constant(t: Numbers, value: int | float) -> NumberTerm:
    if isinstance(value, int):
        return NumberTerm(t.integer(value))
    if math.isfinite(value):
        return t.finite(Fraction(value))
    return NumberTerm(t.real(0), t.integer(NAN if math.isnan(value) else int(math.copysign(INFINITE, value))))


def _condition(t: Numbers, holds: Any, defined: tuple[Any, ...]) -> NumberTerm:
    return NumberTerm(z3.If(holds, t.integer(1), t.integer(0)), None, defined)


def _compared(relation: Callable[[Any, Any], Any]) -> Instruction:
    return lambda t, a, b: _condition(t, t.compare(relation, a, b), needs(a, b))


def _unequal(t: Numbers, a: NumberTerm, b: NumberTerm) -> NumberTerm:
    return _condition(t, z3.Not(t.compare(operator.eq, a, b)), needs(a, b))


COMPARISONS: dict[str, Instruction] = {"eq": _compared(operator.eq), "ne": _unequal, "le": _compared(operator.le), "lt": _compared(operator.lt)}


def _of_values(compute: Callable[..., Any]) -> Instruction:
    """An operation on ints that is always defined."""
    return lambda t, *operands: NumberTerm(compute(*(operand.value for operand in operands)))


def _of_truths(combine: Callable[..., Any]) -> Instruction:
    return lambda t, *operands: _condition(t, combine(*(operand.value != 0 for operand in operands)), ())


def _shift_left(t: Numbers, value: NumberTerm, by: NumberTerm) -> NumberTerm:
    factor = t.power(NumberTerm(t.integer(2)), by)
    return NumberTerm(value.value * factor.value, None, factor.defined)


def _shift_right(t: Numbers, value: NumberTerm, by: NumberTerm) -> NumberTerm:
    divisor = t.power(NumberTerm(t.integer(2)), by)
    return NumberTerm(floor_division(value.value, divisor.value), None, divisor.defined)


def _same_float(t: Numbers, value: NumberTerm) -> NumberTerm:
    return t.finite(value.value, (magnitude(value.value) <= LARGEST_IN_FLOAT,))


def _true_divide(t: Numbers, a: NumberTerm, b: NumberTerm) -> NumberTerm:
    return t.finite(t.rounded(t.real(a.value) / t.real(b.value)), (*needs(_same_float(t, a), _same_float(t, b)), *nonzero(b)))


def _float_operation(name: str, exact: Callable[[Any, Any], Any]) -> Instruction:
    return lambda t, a, b: t.float_operation(name, exact, a, b)


def _float_sub(t: Numbers, a: NumberTerm, b: NumberTerm) -> NumberTerm:
    return t.float_operation("sum", operator.add, a, negated(b))


def _float_divide(t: Numbers, a: NumberTerm, b: NumberTerm) -> NumberTerm:
    return t.float_operation("quotient", operator.truediv, a, b, *nonzero(b))


def _unknown(name: str) -> Instruction:
    """A function of floats about which nothing is known but its name."""
    return lambda t, *operands: t.unknown(name, operands, integer=False)


def _integer(round_value: Callable[[Any], Any]) -> Instruction:
    return lambda t, number: made_integer(round_value, number)


def _divisible(t: Numbers, value: NumberTerm, by: NumberTerm) -> NumberTerm:
    return _condition(t, t.divided(modulo, value, by).value == 0, nonzero(by))


INSTRUCTIONS: dict[str, Instruction] = {
    "add": _of_values(operator.add),
    "sub": _of_values(operator.sub),
    "mul": _of_values(operator.mul),
    "floordiv": lambda t, a, b: t.divided(floor_division, a, b),
    "mod": lambda t, a, b: t.divided(modulo, a, b),
    "power": Numbers.power,
    "minimum": lambda t, a, b: t.extreme(operator.lt, a, b),
    "maximum": lambda t, a, b: t.extreme(operator.gt, a, b),
    "magnitude": _of_values(magnitude),
    "bit_and": Numbers.bit_and,
    "bit_or": Numbers.bit_or,
    "bit_xor": Numbers.bit_xor,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    **COMPARISONS,
    "both": _of_truths(z3.And),
    "either": _of_truths(z3.Or),
    "negation": _of_truths(z3.Not),
    "select": lambda t, condition, then, otherwise: t.choice(condition.value != 0, then, otherwise),
    "to_float": Numbers.as_operand,
    "same_float": _same_float,
    "true_divide": _true_divide,
    "float_add": _float_operation("sum", operator.add),
    "float_sub": _float_sub,
    "float_mul": _float_operation("product", operator.mul),
    "float_divide": _float_divide,
    "float_power": _unknown("FloatPow"),
    "float_root": _unknown("OpaqueUnaryFn_sqrt"),
    "float_magnitude": lambda t, number: absolute(number),
    **{f"float_{name}": compare for name, compare in COMPARISONS.items()},
    "float_floordiv": _unknown("FloatFloorDiv"),
    "float_mod": _unknown("FloatMod"),
    **{f"float_{name}": _unknown(f"math.{name}") for name in FUNCTIONS},
    "common_divisor": lambda t, *operands: t.unknown("gcd", operands, integer=True),
    "truncate": _integer(truncated),
    "floor": _integer(z3.ToInt),
    "ceiling": _integer(ceiling),
    "nearest": _integer(rounded_to_even),
    "need": lambda t, condition: condition,
    **{f"need_{name}": compare for name, compare in COMPARISONS.items()},
    "need_divisible": _divisible,
}
"""By the name of an operation of shape_vm.OPERATIONS."""
