"""Represents Python's numbers as z3 terms: integers and rationals, floats with infinities and nan, and the operations on them.

Facts that z3 proves about the terms hold for the numbers that Python computes:

- Integers and rationals are exact.
- A float is finite, infinite or nan. 0.0 and -0.0 are the same, as in comparisons. A sum, product or quotient is the exact one, rounded: z3 knows bounds of
  the rounding error, and cases without rounding, but not the rounded number.
- A function that can't be described exactly is an uninterpreted function of its arguments, so proofs hold for any results that it may have.

An integer that becomes a float is assumed to be below 2**1023; for larger ones, Python raises OverflowError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any

import z3

from framejit.quick_dataclass import dataclass

FINITE, INFINITE, NAN = 0, 1, 2
"""The kinds of floats. The kind of minus infinity is -INFINITE."""
OVERFLOW = 2**1024 - 2**970
"""The smallest number that is rounded to an infinite float."""
EXACT = 2**53
"""Integers up to this one are exact as floats, and the relative rounding error is at most one divided by it."""
LARGEST_POWER = 16
"""Powers up to this one are written as products."""


@dataclass(frozen=True, slots=True, eq=False)
class NumberTerm:
    """A number as z3 terms.

    Attributes:
        value: an Int or Real, which has no meaning if the number is a float that is not finite.
        kind: for a float, an Int that is one of the kinds above; None for integers and rationals.
        defined: the condition under which Python computes the number without an error.
    """

    value: Any
    kind: Any = None
    defined: tuple[Any, ...] = ()

    @property
    def exact(self) -> bool:
        return self.kind is None


def needs(*numbers: NumberTerm) -> tuple[Any, ...]:
    """The condition under which all of the numbers can be computed."""
    return tuple(chain.from_iterable(number.defined for number in numbers))


def nonzero(divisor: NumberTerm) -> tuple[Any, ...]:
    """The condition under which Python can divide by a number."""
    if z3.is_int_value(divisor.value) and divisor.value.as_long() != 0:
        return ()
    return (divisor.value != 0,) if divisor.exact else (z3.Or(divisor.kind != FINITE, divisor.value != 0),)


def negated(number: NumberTerm) -> NumberTerm:
    """Minus a number, which is never rounded."""
    kind = None if number.exact else z3.If(number.kind == NAN, number.kind, -number.kind)
    return NumberTerm(-number.value, kind, number.defined)


def absolute(number: NumberTerm) -> NumberTerm:
    return NumberTerm(magnitude(number.value), None if number.exact else magnitude(number.kind), number.defined)


def made_integer(round_value: Callable[[Any], Any], number: NumberTerm) -> NumberTerm:
    """A number as an int, made by a function that turns a Real into an Int. For infinities and nan, Python raises an error."""
    is_finite = () if number.exact else (number.kind == FINITE,)
    return NumberTerm(number.value if number.value.is_int() else round_value(number.value), None, (*number.defined, *is_finite))


class Numbers:
    """Makes terms in `context`. Contexts share nothing, so that each can be used by a thread of its own.

    Attributes:
        facts: terms that hold for every input, which must be asserted in all proofs about the terms.
        unmodelled: the functions that are left uninterpreted.
    """

    def __init__(self, context: z3.Context) -> None:
        self.context = context
        self.facts: list[Any] = []
        self.unmodelled: set[str] = set()
        self._said: dict[int, Any] = {}

    def integer(self, value: int) -> Any:
        return z3.IntVal(value, self.context)

    def real(self, value: Any) -> Any:
        """An Int or Real term, an int or a Fraction as a Real."""
        if not z3.is_expr(value):
            return z3.RealVal(value, self.context)
        if z3.is_int_value(value):
            return z3.RealVal(value.as_long(), self.context)
        return z3.ToReal(value) if value.is_int() else value

    def finite(self, value: Any, defined: tuple[Any, ...] = ()) -> NumberTerm:
        """A finite float."""
        return NumberTerm(self.real(value), self.integer(FINITE), defined)

    def as_float(self, number: NumberTerm) -> NumberTerm:
        """A number for comparisons with floats, which Python makes without rounding."""
        return self.finite(number.value, number.defined) if number.exact else number

    def as_operand(self, number: NumberTerm) -> NumberTerm:
        """A number for float arithmetic, for which Python rounds integers."""
        return self.finite(self.rounded(number.value), number.defined) if number.exact else number

    def integer_variable(self, name: str) -> NumberTerm:
        """An int64, which is what a guard can read."""
        value = z3.Int(name, self.context)
        self._say(value, value >= -(2**63), value < 2**63)
        return NumberTerm(value)

    def float_variable(self, name: str) -> NumberTerm:
        """Any float."""
        return NumberTerm(z3.Real(name, self.context), self._kind(z3.Int(f"kind of {name}", self.context)))

    def uninterpreted(self, name: str, arguments: Sequence[NumberTerm], integer: bool) -> NumberTerm:
        """Some function of the arguments, whose results are integers or else floats."""
        self.unmodelled.add(name)
        value = self._some(name, arguments, z3.IntSort(self.context) if integer else z3.RealSort(self.context))
        kind = None if integer else self._kind(self._some(f"kind of {name}", arguments, z3.IntSort(self.context)))
        return NumberTerm(value, kind, needs(*arguments))

    def unknown(self, name: str, arguments: Sequence[NumberTerm], integer: bool) -> NumberTerm:
        """Some function of the arguments that may raise an error."""
        result = self.uninterpreted(name, arguments, integer)
        defined = self._some(f"{name} is defined", arguments, z3.BoolSort(self.context))
        return NumberTerm(result.value, result.kind, (*result.defined, defined))

    def _some(self, name: str, arguments: Sequence[NumberTerm], sort: Any) -> Any:
        terms = [term for argument in arguments for term in (argument.value, argument.kind) if term is not None]
        return z3.Function(name, *(term.sort() for term in terms), sort)(*terms) if terms else z3.Const(name, sort)

    def _kind(self, kind: Any) -> Any:
        self._say(kind, kind >= -INFINITE, kind <= NAN)
        return kind

    def _say(self, about: Any, *facts: Any) -> None:
        """Note the facts about a term, once."""
        if about.get_id() not in self._said:
            self._said[about.get_id()] = about  # which keeps the id from being used for another term
            self.facts += facts

    def rounded(self, exact: Any) -> Any:
        """The float nearest to a number, as a Real. Rounding never crosses a float, and doesn't change a number that is one."""
        exact = self.real(exact)
        if z3.is_rational_value(exact):
            return self.real(Fraction(float(exact.as_fraction())))
        result = z3.Function("rounded", exact.sort(), exact.sort())(exact)
        below, above = self.real(1 - Fraction(1, EXACT)), self.real(1 + Fraction(1, EXACT))
        size, rounded_size, error = magnitude(exact), magnitude(result), magnitude(result - exact)
        self._say(
            result,
            z3.If(exact >= 0, result >= 0, result <= 0),
            z3.If(size >= 1, z3.And(rounded_size >= size * below, rounded_size <= size * above), error <= self.real(Fraction(1, EXACT))),
            *(z3.Implies(z3.And(size * scale <= EXACT, z3.IsInt(exact * scale)), result == exact) for scale in (1, 1024)),
        )
        return result

    def float_operation(self, name: str, exact: Callable[[Any, Any], Any], a: NumberTerm, b: NumberTerm, *defined: Any) -> NumberTerm:
        """An operation on two numbers one of which is a float. `exact` computes it with the operands' values."""
        a, b = self.as_operand(a), self.as_operand(b)
        both_finite = z3.And(a.kind == FINITE, b.kind == FINITE)
        result = exact(a.value, b.value)
        kind = z3.If(result >= OVERFLOW, self.integer(INFINITE), z3.If(result <= -OVERFLOW, self.integer(-INFINITE), self.integer(FINITE)))
        other = self.uninterpreted(f"{name} with infinities", [a, b], integer=False)
        return NumberTerm(z3.If(both_finite, self.rounded(result), other.value), z3.If(both_finite, kind, other.kind), (*needs(a, b), *defined))

    def power(self, base: NumberTerm, exponent: NumberTerm) -> NumberTerm:
        """An int to the power of an int, which may not be negative."""
        b, n = base.value, exponent.value
        if z3.is_int_value(n) and 0 <= n.as_long() <= LARGEST_POWER:
            return NumberTerm(z3.Product([self.integer(1), *[b] * n.as_long()]), None, base.defined)
        result = self.uninterpreted("power", [base, exponent], integer=True)
        self._say(
            result.value,
            *(z3.Implies(n == 0, result.value == 1), z3.Implies(n == 1, result.value == b)),
            *(z3.Implies(z3.And(n >= 0, b >= 1), result.value >= 1), z3.Implies(z3.And(n >= 0, b >= 2), result.value > n)),
        )
        return NumberTerm(result.value, None, (*result.defined, n >= 0))

    def divided(self, divide: Callable[[Any, Any], Any], a: NumberTerm, b: NumberTerm) -> NumberTerm:
        """The result of `floor_division` or `modulo` for integers and rationals. z3 uses the relation between quotient and remainder only if the divisor is
        known."""
        x, y = a.value, b.value
        if x.is_int() and y.is_int() and not z3.is_int_value(y):
            self._say(x % y, z3.Implies(y > 0, z3.And(x == y * (x / y) + x % y, x % y >= 0, x % y < y)))
        return NumberTerm(divide(x, y), None, (*needs(a, b), *nonzero(b)))

    def bit_and(self, a: NumberTerm, b: NumberTerm) -> NumberTerm:
        """`a & b` of ints."""
        if z3.is_int_value(a.value):
            a, b = b, a
        if z3.is_int_value(b.value):
            return NumberTerm(bits(a.value, b.value.as_long()), None, needs(a, b))
        first, second = sorted((a, b), key=lambda number: number.value.get_id())
        result = self.uninterpreted("&", [first, second], integer=True)
        self._say(result.value, *(z3.Implies(side.value >= 0, z3.And(result.value >= 0, result.value <= side.value)) for side in (a, b)))
        return result

    def bit_or(self, a: NumberTerm, b: NumberTerm) -> NumberTerm:
        return NumberTerm(a.value + b.value - self.bit_and(a, b).value, None, needs(a, b))

    def bit_xor(self, a: NumberTerm, b: NumberTerm) -> NumberTerm:
        return NumberTerm(a.value + b.value - 2 * self.bit_and(a, b).value, None, needs(a, b))

    def extreme(self, better: Callable[[Any, Any], Any], *numbers: NumberTerm) -> NumberTerm:
        """The smallest or the largest of some numbers. If one is nan, it depends on their order."""
        best = numbers[0]
        for number in numbers[1:]:
            best = self.choice(self.compare(better, number, best), NumberTerm(number.value, number.kind), NumberTerm(best.value, best.kind))
        floats = [number for number in numbers if not number.exact]
        if floats:
            some_nan = z3.Or([number.kind == NAN for number in floats])
            best = self.choice(some_nan, self.uninterpreted("extreme with nan", numbers, integer=False), best)
        return NumberTerm(best.value, best.kind, needs(*numbers))

    def choice(self, condition: Any, then: NumberTerm, other: NumberTerm, *defined: Any) -> NumberTerm:
        """One of two numbers; the other one need not be computable."""
        if not (then.exact and other.exact):
            then, other = self.as_float(then), self.as_float(other)
        kind = None if then.exact else z3.If(condition, then.kind, other.kind)
        of_then, of_other = ([z3.Implies(where, need) for need in term.defined] for where, term in ((condition, then), (z3.Not(condition), other)))
        return NumberTerm(z3.If(condition, then.value, other.value), kind, (*defined, *of_then, *of_other))

    def compare(self, relation: Callable[[Any, Any], Any], a: NumberTerm, b: NumberTerm) -> Any:
        """==, <, <=, > or >= as Python has it: infinities are ordered by their signs, and nothing holds for nan."""
        if a.exact and b.exact:
            return relation(a.value, b.value)
        a, b = self.as_float(a), self.as_float(b)
        by_value = z3.And(a.kind == FINITE, b.kind == FINITE)
        return z3.And(a.kind != NAN, b.kind != NAN, z3.If(by_value, relation(a.value, b.value), relation(a.kind, b.kind)))


def magnitude(value: Any) -> Any:
    """The absolute value of an Int or Real."""
    return z3.If(value >= 0, value, -value)


def floor_division(a: Any, b: Any) -> Any:
    """Python's `a // b` of Ints or Reals. z3's division of Ints rounds down for positive divisors only."""
    if not (a.is_int() and b.is_int()):
        return z3.ToInt(a / b)
    if z3.is_int_value(b):
        return a / b if b.as_long() > 0 else -a / -b
    return z3.If(b > 0, a / b, -a / -b)


def modulo(a: Any, b: Any) -> Any:
    """Python's `a % b` of Ints or Reals, whose sign is that of `b`."""
    if not (a.is_int() and b.is_int()):
        return a - b * floor_division(a, b)
    if z3.is_int_value(b):
        return a % b if b.as_long() > 0 else -(-a % -b)
    return z3.If(b > 0, a % b, -(-a % -b))


def ceiling(value: Any) -> Any:
    """The least Int that is not below a Real."""
    return -z3.ToInt(-value)


def truncated(value: Any) -> Any:
    """A Real without its fraction, as an Int."""
    return z3.If(value >= 0, z3.ToInt(value), ceiling(value))


def rounded_to_even(value: Any) -> Any:
    """The Int next to a Real, the even one where two are."""
    below = z3.ToInt(value)
    rest = 2 * (value - z3.ToReal(below))
    return z3.If(z3.Or(rest < 1, z3.And(rest == 1, below % 2 == 0)), below, below + 1)


def bits(value: Any, mask: int) -> Any:
    """Python's `value & mask` of an Int: for each run of ones in the mask, what lies below its end without what lies below its start."""
    if mask < 0:
        return value - bits(value, ~mask)
    text = bin(mask)[:1:-1] + "0"  # the lowest bit first
    edges = [place for place, (bit, lower) in enumerate(zip(text, "0" + text)) if bit != lower]
    runs = [value % 2**end - value % 2**start for start, end in zip(edges[::2], edges[1::2])]
    return z3.Sum(runs) if runs else value * 0
