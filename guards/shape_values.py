"""Computes the value of a shape expression from the values of its symbols, as Python would."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import sympy
from sympy.logic.boolalg import BooleanAtom
from torch.utils._sympy import functions as shape
from torch.utils._sympy.numbers import IntInfinity, NegativeIntInfinity

Value = int | float | bool | Fraction
MOST_BITS = 4096
"""Powers with a larger exponent, and shifts by more, aren't computed: numbers that are tried out may be huge."""


class NoPythonValue(Exception):
    """An expression doesn't determine what Python computes: its function is unknown, or sympy has lost the order of floats in a sum."""


def name_of(symbol: sympy.Symbol) -> str:
    """A name of a symbol that no other symbol of the same expressions has. Sympy's dummies get their number."""
    return f"{symbol.name}_{symbol.dummy_index}" if isinstance(symbol, sympy.Dummy) else str(symbol.name)


def value_of(expression: Any, values: Mapping[str, int | float]) -> Any:
    """The value of an expression, which is a number or a truth value. `values` has the values of its symbols by name. Rationals are exact.

    Raises what Python raises if the expression isn't defined (ZeroDivisionError, OverflowError, ValueError), and NoPythonValue.
    """
    if isinstance(expression, (bool, BooleanAtom)):
        return bool(expression)
    if isinstance(expression, sympy.Symbol):
        name = name_of(expression)
        if name not in values:
            raise NoPythonValue(name)
        return values[name]
    if isinstance(expression, sympy.Rational):
        return int(expression.p) if expression.q == 1 else Fraction(int(expression.p), int(expression.q))
    if isinstance(expression, (sympy.Float, sympy.core.numbers.Infinity, sympy.core.numbers.NegativeInfinity, sympy.core.numbers.NaN)):
        return float(expression)
    if isinstance(expression, (IntInfinity, NegativeIntInfinity)):
        return math.copysign(math.inf, 1 if expression.is_extended_positive else -1)
    if isinstance(expression, (sympy.Piecewise, shape.Where)):
        return _chosen(expression, values)
    compute = COMPUTED.get(expression.func) or _of_module_math(expression.func.__name__)
    if compute is None:
        raise NoPythonValue(expression.func.__name__)
    return compute(*[value_of(argument, values) for argument in expression.args])


def _chosen(expression: Any, values: Mapping[str, int | float]) -> Any:
    """The value of a case distinction: that of the case that applies."""
    cases = expression.args if isinstance(expression, sympy.Piecewise) else ((expression.args[1], expression.args[0]), (expression.args[2], True))
    for value, condition in cases:
        if value_of(condition, values):
            return value_of(value, values)
    raise NoPythonValue("no case applies")


def _of_module_math(name: str) -> Callable[[Any], Any] | None:
    """The function that torch's OpaqueUnaryFn_sqrt, or one of its siblings, computes."""
    prefix = "OpaqueUnaryFn_"
    return getattr(math, name.removeprefix(prefix), None) if name.startswith(prefix) else None


def _in_any_order(combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Apply an operation to several numbers. If there are more than two, and one is a float, the order would matter: this raises NoPythonValue."""

    def compute(*numbers: Any) -> Any:
        signs = [number for number in numbers if type(number) is int and number == -1 and combine is operator.mul]
        if any(isinstance(number, float) for number in numbers) and len(numbers) - len(signs) > 2:
            raise NoPythonValue("the order of floats in a sum or product")
        return functools.reduce(combine, numbers)

    return compute


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, float) or not isinstance(exponent, int):
        raise NoPythonValue("a power of floats")
    _check_size(base, exponent)
    return base**exponent if exponent >= 0 else Fraction(1) / base**-exponent


def _power_by_natural(base: int, exponent: int) -> int:
    if exponent < 0:
        raise ValueError("negative exponent")
    _check_size(base, exponent)
    return base**exponent


def _check_size(base: Any, exponent: int) -> None:
    """Raise NoPythonValue for a power that would take long to compute."""
    if abs(base) > 1 and abs(exponent) > MOST_BITS:
        raise NoPythonValue("a power of very many bits")


def _shift_left(number: int, by: int) -> int:
    if by > MOST_BITS:
        raise NoPythonValue("a number of very many bits")
    return number << by


def _modular_indexing(number: int, divisor: int, modulus: int) -> int:
    if number < 0 or divisor < 0 or modulus < 0:
        raise NoPythonValue("ModularIndexing of negative numbers")
    return number // divisor % modulus


def _floor_division(a: Any, b: Any) -> Any:
    if isinstance(a, float) or isinstance(b, float):
        raise NoPythonValue("FloorDiv of floats")
    return a // b


def _modulo(a: Any, b: Any) -> Any:
    if isinstance(a, float) or isinstance(b, float):
        raise NoPythonValue("Mod of floats")
    return a % b


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    def compute(*numbers: Any) -> Any:
        if any(number != number for number in numbers):
            raise NoPythonValue("the order in which a nan is compared")
        return choose(numbers)

    return compute


COMPUTED: dict[Any, Callable[..., Any]] = {
    sympy.Eq: operator.eq,
    sympy.Ne: operator.ne,
    sympy.Lt: operator.lt,
    sympy.Le: operator.le,
    sympy.Gt: operator.gt,
    sympy.Ge: operator.ge,
    sympy.Not: operator.not_,
    sympy.And: lambda *conditions: all(conditions),
    sympy.Or: lambda *conditions: any(conditions),
    sympy.Xor: lambda *conditions: sum(conditions) % 2 == 1,
    sympy.Add: _in_any_order(operator.add),
    sympy.Mul: _in_any_order(operator.mul),
    sympy.Pow: _power,
    sympy.Abs: abs,
    sympy.Max: _extreme(max),
    sympy.Min: _extreme(min),
    sympy.Mod: _modulo,
    sympy.floor: math.floor,
    sympy.ceiling: math.ceil,
    shape.Max: _extreme(max),
    shape.Min: _extreme(min),
    shape.PowByNatural: _power_by_natural,
    shape.FloatPow: lambda base, exponent: float(base) ** float(exponent),
    shape.FloorDiv: _floor_division,
    shape.CleanDiv: _floor_division,
    shape.Mod: _modulo,
    shape.PythonMod: _modulo,
    shape.ModularIndexing: _modular_indexing,
    shape.LShift: _shift_left,
    shape.RShift: operator.rshift,
    shape.IntTrueDiv: operator.truediv,
    shape.FloatTrueDiv: lambda a, b: float(a) / float(b),
    shape.ToFloat: float,
    shape.FloorToInt: math.floor,
    shape.CeilToInt: math.ceil,
    shape.TruncToInt: math.trunc,
    shape.TruncToFloat: lambda number: float(math.trunc(number)),
    shape.RoundToInt: round,
    shape.RoundDecimal: round,
    shape.Identity: lambda number: number,
    shape.BitwiseFn_bitwise_and: operator.and_,
    shape.BitwiseFn_bitwise_or: operator.or_,
    shape.BitwiseFn_bitwise_xor: operator.xor,
}
