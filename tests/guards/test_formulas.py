"""Formulas: a guard accepts a number only if the formula's value, in C++ as in the reference, is Python's."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
import sympy
from guarding import agrees, slot

from framejit.guards.build import build
from framejit.guards.formulas import Formula, constant
from framejit.guards.shape_program import shapes_hold
from framejit.guards.source import Root

X, Y = sympy.symbols("x y", real=True)
N, M = sympy.symbols("n m", integer=True)
FLOATS = (
    0.0, -0.0, 0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 0.1, 0.7, -0.3, 3.7, 1e-320, 5e-324, 1e300, -1e300, 2.0**63, -(2.0**63), 709.0,
    710.0, math.inf, -math.inf, math.nan,
)  # fmt: skip
INTS = (0, 1, -1, 2, 3, -4, 6, 12, 62, 63, 2**31, 2**53 + 1, 2**63 - 1, -(2**63))
OF_FLOATS: dict[str, Callable[..., Any]] = {
    "float_floordiv": operator.floordiv, "float_mod": operator.mod, "float_power": operator.pow, "float_add": operator.add, "float_divide": operator.truediv,
    "float_exp": math.exp, "float_log": math.log, "float_log2": math.log2, "float_log10": math.log10, "float_root": math.sqrt, "float_magnitude": abs,
}  # fmt: skip
OF_INTS: dict[str, Callable[..., Any]] = {
    "common_divisor": math.gcd, "bit_or": operator.or_, "bit_xor": operator.xor, "shift_left": operator.lshift, "power": operator.pow, "magnitude": abs,
}  # fmt: skip
TO_INT: dict[str, Callable[..., Any]] = {"truncate": int, "floor": math.floor, "ceiling": math.ceil, "nearest": round}
OF_ONE = {*TO_INT, "float_exp", "float_log", "float_log2", "float_log10", "float_root", "float_magnitude", "magnitude"}


def in_python(function: Callable[..., Any], values: tuple[Any, ...]) -> Any:
    """Return the value that Python computes; None if it raises an error or would be far beyond 64 bits."""
    if type(values[-1]) is int and values[-1] > 200 and (function is operator.lshift or (function is operator.pow and abs(values[0]) > 1)):
        return None  # far more than 64 bits
    try:
        return function(*values)
    except (ArithmeticError, ValueError):
        return None


def accepts(formula: Formula, expected: int | float, leaves: tuple[Any, ...], values: tuple[Any, ...]) -> bool:
    """Return whether a guard holds that a formula gives this number."""
    root, wanted = Root(), constant(expected)
    found, number = [sympy.Symbol(name, real=True) if formula.is_float else sympy.Symbol(name, integer=True) for name in ("found", "number")]
    guard = shapes_hold([(sympy.Eq(found, number), None)], {leaf: slot(root, i) for i, leaf in enumerate(leaves)}, {found: formula, number: wanted})
    assert guard is not None
    return agrees(build([guard], [], []), *values)


@pytest.mark.parametrize("operation", [*OF_FLOATS, *TO_INT, *OF_INTS])
def test_formulas_are_python(operation: str) -> None:
    function = (OF_FLOATS | TO_INT | OF_INTS)[operation]
    all_leaves, numbers = ((N, M), INTS) if operation in OF_INTS else ((X, Y), FLOATS)
    leaves = all_leaves[:1] if operation in OF_ONE else all_leaves
    formula = Formula(operation, leaves, operation in OF_FLOATS)
    computed = 0
    for values in itertools.product(numbers, repeat=len(leaves)):
        expected = in_python(function, values)
        fits = type(expected) is float and expected == expected if formula.is_float else type(expected) is int and -(2**63) <= expected < 2**63
        if fits and accepts(formula, expected, leaves, values):
            computed += 1
        elif not fits:
            assert not accepts(formula, 1.0 if formula.is_float else 1, leaves, values), values
    assert computed > len(numbers) // 3
