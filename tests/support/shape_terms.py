"""Shape expressions beside the Python that they stand for, and a comparison of z3's terms with it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import sympy
import z3
from torch.utils._sympy import functions as shape

from framejit.guards.shape_values import value_of
from framejit.guards.to_z3 import Translation

s, t = sympy.symbols("s t", integer=True)
x, y = sympy.symbols("x y", real=True)

OF_INTEGERS: dict[str, tuple[Any, Callable[[int, int], Any]]] = {
    "floor division": (shape.FloorDiv(s, t), lambda s, t: s // t),
    "floor division by 3": (shape.FloorDiv(s, 3), lambda s, t: s // 3),
    "floor division by -3": (shape.FloorDiv(s, -3), lambda s, t: s // -3),
    "floor division of 17": (shape.FloorDiv(17, t), lambda s, t: 17 // t),
    "exact division": (shape.CleanDiv(s, t, evaluate=False), lambda s, t: s // t),
    "modulo": (shape.PythonMod(s, t), lambda s, t: s % t),
    "modulo 3": (shape.PythonMod(s, 3), lambda s, t: s % 3),
    "modulo -3": (shape.PythonMod(s, -3), lambda s, t: s % -3),
    "torch's modulo": (shape.Mod(s, t), lambda s, t: s % t),
    "sympy's modulo": (sympy.Mod(s, t), lambda s, t: s % t),
    "sum": (s + 2 * t - 3, lambda s, t: s + 2 * t - 3),
    "product": (-3 * s * t, lambda s, t: -3 * s * t),
    "power": (s**3 - t**2, lambda s, t: s**3 - t**2),
    "power by natural": (shape.PowByNatural(s, 4), lambda s, t: s**4),
    "quotient": (s / t, lambda s, t: Fraction(s, t)),
    "half": (s / 2 + t, lambda s, t: Fraction(s, 2) + t),
    "floor": (sympy.floor(s / t), lambda s, t: math.floor(Fraction(s, t))),
    "ceiling": (sympy.ceiling(s / 3), lambda s, t: math.ceil(Fraction(s, 3))),
    "absolute": (sympy.Abs(s - t), lambda s, t: abs(s - t)),
    "torch's greatest": (shape.Max(s, t, 2), lambda s, t: max(s, t, 2)),
    "torch's least": (shape.Min(s, t, 2), lambda s, t: min(s, t, 2)),
    "sympy's greatest": (sympy.Max(s, t), lambda s, t: max(s, t)),
    "sympy's least": (sympy.Min(s, t), lambda s, t: min(s, t)),
    "where": (shape.Where(s > t, s, shape.FloorDiv(s, t)), lambda s, t: s if s > t else s // t),
    "piecewise": (
        sympy.Piecewise((shape.FloorDiv(7, s), s > t), (t, sympy.Ne(s, 2)), (9, True)),
        lambda s, t: 7 // s if s > t else t if s != 2 else 9,
    ),
    "identity": (shape.Identity(s + t), lambda s, t: s + t),
    "shift": (shape.RShift(shape.LShift(s, 3), 2), lambda s, t: (s << 3) >> 2),
    "and": (shape.BitwiseFn_bitwise_and(s, 6), lambda s, t: s & 6),
    "and of negative": (shape.BitwiseFn_bitwise_and(-6, t), lambda s, t: -6 & t),
    "and of zero": (shape.BitwiseFn_bitwise_and(s, 0), lambda s, t: s & 0),
    "or": (shape.BitwiseFn_bitwise_or(s, 5), lambda s, t: s | 5),
    "exclusive or": (shape.BitwiseFn_bitwise_xor(s, -3), lambda s, t: s ^ -3),
}
"""Expressions over the integers s and t that are translated exactly, each with a function that computes the same in Python."""
OF_NONNEGATIVE: dict[str, tuple[Any, Callable[[int, int], Any]]] = {
    "modular indexing": (shape.ModularIndexing(s, 3, t), lambda s, t: s // 3 % t),
    "modular indexing by symbol": (shape.ModularIndexing(s, t, 4), lambda s, t: s // t % 4),
}
"""Expressions that backends agree on only for integers that are not negative."""
OF_FLOATS: dict[str, tuple[Any, Callable[[int, int], Any]]] = {
    "true division": (shape.IntTrueDiv(s, t), lambda s, t: s / t),
    "to float": (shape.ToFloat(s) * 2.5 + 0.5, lambda s, t: float(s) * 2.5 + 0.5),
    "truncated": (shape.TruncToInt(shape.IntTrueDiv(s, t)), lambda s, t: math.trunc(s / t)),
    "rounded down": (shape.FloorToInt(shape.IntTrueDiv(s, t)), lambda s, t: math.floor(s / t)),
    "rounded up": (shape.CeilToInt(1.5 * shape.ToFloat(s)), lambda s, t: math.ceil(1.5 * float(s))),
    "rounded": (shape.RoundToInt(0.5 * shape.ToFloat(s)), lambda s, t: round(0.5 * float(s))),
    "rounded a quotient": (shape.RoundToInt(shape.IntTrueDiv(s, t)), lambda s, t: round(s / t)),
    "quotient of floats": (shape.FloatTrueDiv(shape.ToFloat(s), shape.ToFloat(t)), lambda s, t: float(s) / float(t)),
    "sum of two": (shape.ToFloat(s) + shape.IntTrueDiv(t, 3), lambda s, t: float(s) + t / 3),
    "negated": (-shape.IntTrueDiv(s, 3), lambda s, t: -(s / 3)),
    "negated product": (-(shape.ToFloat(s) * shape.IntTrueDiv(t, 3)), lambda s, t: -(float(s) * (t / 3))),
    "greatest": (shape.Max(shape.ToFloat(s), shape.IntTrueDiv(t, 7), 0.25), lambda s, t: max(float(s), t / 7, 0.25)),
    "absolute": (sympy.Abs(shape.IntTrueDiv(s, 3)), lambda s, t: abs(s / 3)),
    "where": (shape.Where(s > t, shape.ToFloat(s), 1.5), lambda s, t: float(s) if s > t else 1.5),
    "sqrt": (shape.OpaqueUnaryFn_sqrt(shape.ToFloat(s)), lambda s, t: math.sqrt(float(s))),
    "power": (shape.PowByNatural(2, t) * s, lambda s, t: 2**t * s if t >= 0 else 1 // 0),
    "and": (shape.BitwiseFn_bitwise_and(s, t), lambda s, t: s & t),
}
"""Expressions of which z3 knows limits, but not always the result."""


def computed(python: Callable[..., Any], *values: int) -> Any:
    """Return the value that Python computes; None if it raises an error."""
    try:
        return python(*values)
    except (ArithmeticError, ValueError):
        return None


def grid(least: int = -7, greatest: int = 7) -> Iterator[tuple[int, int]]:
    return itertools.product(range(least, greatest + 1), repeat=2)


CONTEXT = z3.Context()
"""The context for terms that live no longer than a test; making a context takes as long as a hundred comparisons."""


class Exact:
    """An expression that is translated exactly. Called with the values of its symbols, it gives the value that z3 computes."""

    def __init__(self, expression: Any) -> None:
        self._translation = Translation(CONTEXT)
        self._term = self._translation.number(expression)
        self._defined = z3.And(*self._term.defined, CONTEXT)

    def __call__(self, **values: int) -> Fraction | None:
        """Return the value; None where the expression is undefined, as in a division by zero."""
        symbols = self._translation.symbols
        pairs = [(symbols[name].value, self._translation.integer(value)) for name, value in values.items() if name in symbols]
        defined = z3.simplify(z3.substitute(self._defined, *pairs))
        assert z3.is_true(defined) or z3.is_false(defined), defined
        if z3.is_false(defined):
            return None
        value = z3.simplify(z3.substitute(self._term.value, *pairs))
        return Fraction(value.as_long()) if value.is_int() else value.as_fraction()


def disagreements(expression: Any, python: Callable[..., Any], values: Iterator[tuple[int, int]]) -> list[Any]:
    """Return values of s and t for which the results of z3, of Python and of `value_of` differ, with these results."""
    found, exact_value = [], Exact(expression)
    for a, b in values:
        expected = computed(python, a, b)
        said = computed(lambda a, b: value_of(expression, {"s": a, "t": b}), a, b)
        z3s = exact_value(s=a, t=b)
        if not (z3s == expected == said):
            found.append((a, b, z3s, expected, said))
    return found


class Possible:
    """Asks z3 whether an expression may have a value."""

    def __init__(self, expression: Any) -> None:
        self.translation = Translation(CONTEXT)
        self.term = self.translation.number(expression)
        self.solver = z3.Solver(ctx=CONTEXT)
        self.solver.set("timeout", 20_000)
        self.solver.add(self.translation.facts)

    def is_possible(self, values: dict[str, int], result: Any) -> bool:
        """Return whether the expression may be `result` for these values of its symbols. The result None means that Python computes nothing."""
        known = [self.translation.symbols[name].value == value for name, value in values.items() if name in self.translation.symbols]
        defined = z3.And(*self.term.defined, CONTEXT)
        if result is None:
            return bool(self.solver.check(*known, z3.Not(defined)) == z3.sat)
        if self.term.exact:
            is_result = self.term.value == result
        else:
            is_result = z3.And(self.term.kind == 0, self.term.value == self.translation.real(Fraction(result)))
        return bool(self.solver.check(*known, defined, is_result) == z3.sat)
