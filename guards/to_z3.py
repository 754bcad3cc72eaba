"""Shape expressions as z3 terms: sympy as torch's ShapeEnv writes it.

A condition counts as true where Python computes it without an error and finds it true: `s // t == 1` is neither true nor false for t == 0.
`z3_numbers.py` says what the numbers are. A function that has no rule here is left uninterpreted, and `unmodelled` names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import sympy
import z3
from sympy.core import numbers as constants
from sympy.logic.boolalg import Boolean, BooleanAtom
from torch.utils._sympy import functions as shape
from torch.utils._sympy.numbers import IntInfinity, NegativeIntInfinity

from framejit.guards.z3_numbers import (
    FINITE,
    INFINITE,
    NAN,
    Numbers,
    NumberTerm,
    bits,
    ceiling,
    floor_division,
    magnitude,
    modulo,
    needs,
    nonzero,
    rounded_to_even,
    truncated,
)

LARGEST_POWER = 16
"""Powers up to this one are written as products."""

Rule = Callable[["Translation", Any], NumberTerm]
RULES: dict[Any, Rule] = {}
"""By the class of an expression, what it is worth."""


def worth(*classes: Any) -> Callable[[Rule], Rule]:
    """Registers the rule for expressions of `classes`."""

    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(classes, rule))
        return rule

    return register


class Translation(Numbers):
    """Translates conditions over the same symbols. `bound` gives terms for symbols by their names; other symbols become variables, called `prefix` + name.

    `symbols` has the terms of the symbols that were met.
    """

    def __init__(self, context: z3.Context, bound: Mapping[str, NumberTerm] | None = None, prefix: str = "") -> None:
        super().__init__(context)
        self.symbols: dict[str, NumberTerm] = dict(bound or {})
        self._prefix = prefix
        self._terms: dict[Any, NumberTerm] = {}

    def truth(self, condition: Any, expected: bool = True) -> Any:
        """That `condition` is computed without an error, and is as expected."""
        if isinstance(condition, (bool, BooleanAtom)):
            return z3.BoolVal(bool(condition) == expected, self.context)
        if isinstance(condition, sympy.Not):
            return self.truth(condition.args[0], not expected)
        if isinstance(condition, (sympy.And, sympy.Or)):
            parts = [self.truth(part, expected) for part in condition.args]
            return z3.And(parts) if isinstance(condition, sympy.And) == expected else z3.Or(parts)
        if isinstance(condition, sympy.Ne):
            return self.truth(sympy.Eq(*condition.args, evaluate=False), not expected)
        if type(condition) in RELATIONS:
            holds, defined = self._relation(condition)
            return z3.And(*defined, holds if expected else z3.Not(holds))
        spelt_out = condition.to_nnf(simplify=False) if isinstance(condition, Boolean) and not condition.is_Symbol else condition
        if spelt_out != condition:
            return self.truth(spelt_out, expected)
        self.unmodelled.add(str(condition))
        unknown = z3.Bool(self._prefix + sympy.srepr(condition), self.context)
        return unknown if expected else z3.Not(unknown)

    def _relation(self, relation: Any) -> tuple[Any, tuple[Any, ...]]:
        """Whether a relation holds, and what must hold for Python to compute it."""
        compare = RELATIONS[type(relation)]
        if all(map(is_condition, relation.args)):
            truths = [self.truth(side) for side in relation.args]
            return compare(*truths), tuple(z3.Or(true, self.truth(side, False)) for true, side in zip(truths, relation.args))
        a, b = map(self.number, relation.args)
        return self.compare(compare, a, b), needs(a, b)

    def number(self, expression: Any) -> NumberTerm:
        """The term of a sympy expression that is a number."""
        term = self._terms.get(expression)
        if term is None:
            rule = _condition if is_condition(expression) else RULES.get(expression.func, _unmodelled)
            term = self._terms[expression] = rule(self, expression)
        return term

    def numbers(self, expression: Any) -> list[NumberTerm]:
        """The terms of an expression's arguments."""
        return [self.number(argument) for argument in expression.args]

    def symbol(self, symbol: sympy.Symbol) -> NumberTerm:
        """The term of a symbol, an integer or else a float. ValueError where the name has been used for a number of the other type."""
        term = self.symbols.get(symbol.name)
        if term is None:
            make = self.integer_variable if symbol.is_integer else self.float_variable
            term = self.symbols[symbol.name] = make(self._prefix + symbol.name)
        if term.exact != bool(symbol.is_integer):
            raise ValueError(f"{symbol.name} stands for an integer and for a float")
        return term


RELATIONS: dict[Any, Callable[[Any, Any], Any]] = {
    sympy.Eq: lambda a, b: a == b,
    sympy.Lt: lambda a, b: a < b,
    sympy.Le: lambda a, b: a <= b,
    sympy.Gt: lambda a, b: a > b,
    sympy.Ge: lambda a, b: a >= b,
}


def is_condition(expression: Any) -> bool:
    """Whether an expression is a truth value; sympy's symbols may be either, and are numbers here."""
    return isinstance(expression, (bool, Boolean)) and not isinstance(expression, sympy.Symbol)


def _condition(t: Translation, e: Any) -> NumberTerm:
    """A condition as 1 or 0."""
    true, false = t.truth(e), t.truth(e, False)
    return NumberTerm(z3.If(true, t.integer(1), t.integer(0)), None, (z3.Or(true, false),))


def _unmodelled(t: Translation, e: Any) -> NumberTerm:
    """An expression that no rule is for."""
    return t.unknown(e.func.__name__ if e.args else sympy.srepr(e), t.numbers(e), bool(e.is_integer))


worth(sympy.Symbol)(Translation.symbol)


@worth(sympy.Integer, constants.Zero, constants.One, constants.NegativeOne)
def _integer(t: Translation, e: Any) -> NumberTerm:
    return NumberTerm(t.integer(int(e)))


@worth(sympy.Rational, constants.Half)
def _rational(t: Translation, e: Any) -> NumberTerm:
    return NumberTerm(t.real(Fraction(int(e.p), int(e.q))))


@worth(sympy.Float)
def _float(t: Translation, e: Any) -> NumberTerm:
    return t.finite(Fraction(float(e)))


@worth(constants.Infinity, constants.NegativeInfinity, IntInfinity, NegativeIntInfinity, constants.NaN)
def _not_finite(t: Translation, e: Any) -> NumberTerm:
    return NumberTerm(t.real(0), t.integer(NAN if e is sympy.nan else INFINITE if e.is_extended_positive else -INFINITE))


@worth(sympy.Add)
def _sum(t: Translation, e: Any) -> NumberTerm:
    terms = t.numbers(e)
    if all(term.exact for term in terms):
        return NumberTerm(z3.Sum([term.value for term in terms]), None, needs(*terms))
    if len(terms) > 2:
        return t.uninterpreted("sum of floats", terms, integer=False)  # sympy forgets the order
    return t.float_operation("sum", lambda a, b: a + b, *terms)


@worth(sympy.Mul)
def _product(t: Translation, e: Any) -> NumberTerm:
    factors = t.numbers(e)
    if all(factor.exact for factor in factors):
        return NumberTerm(z3.Product([factor.value for factor in factors]), None, needs(*factors))
    if e.args[0] == -1:
        number = factors[1] if len(factors) == 2 else t.number(sympy.Mul(*e.args[1:], evaluate=False))
        return NumberTerm(-number.value, z3.If(number.kind == NAN, number.kind, -number.kind), number.defined)
    if len(factors) > 2:
        return t.uninterpreted("product of floats", factors, integer=False)
    return t.float_operation("product", lambda a, b: a * b, *factors)


@worth(sympy.Pow, shape.PowByNatural)
def _power(t: Translation, e: Any) -> NumberTerm:
    base, exponent = t.numbers(e)
    if not (base.exact and exponent.exact):
        return _unmodelled(t, e)
    if z3.is_int_value(exponent.value) and abs(exponent.value.as_long()) <= LARGEST_POWER:
        times = exponent.value.as_long()
        product = z3.Product([base.value] * abs(times)) if times else t.integer(1)
        return NumberTerm(product, None, base.defined) if times >= 0 else NumberTerm(1 / t.real(product), None, (*base.defined, *nonzero(base)))
    if e.func is sympy.Pow:
        return _unmodelled(t, e)
    power = t.uninterpreted("power", [base, exponent], integer=True)
    b, n, result = base.value, exponent.value, power.value
    t.facts += [z3.Implies(n == 0, result == 1), z3.Implies(n == 1, result == b)]
    t.facts += [z3.Implies(z3.And(n >= 0, b >= 1), result >= 1), z3.Implies(z3.And(n >= 0, b >= 2), result > n)]
    return NumberTerm(result, None, (*power.defined, n >= 0))


@worth(shape.FloorDiv, shape.CleanDiv)
def _floor_division(t: Translation, e: Any) -> NumberTerm:
    a, b = t.numbers(e)
    return NumberTerm(floor_division(a.value, b.value), None, (*needs(a, b), *nonzero(b))) if a.exact and b.exact else _unmodelled(t, e)


@worth(shape.Mod, shape.PythonMod, sympy.Mod)
def _modulo(t: Translation, e: Any) -> NumberTerm:
    a, b = t.numbers(e)
    return NumberTerm(modulo(a.value, b.value), None, (*needs(a, b), *nonzero(b))) if a.exact and b.exact else _unmodelled(t, e)


@worth(shape.ModularIndexing)
def _modular_indexing(t: Translation, e: Any) -> NumberTerm:
    """`a // b % c` where no operand is negative. What else it is depends on the backend."""
    a, b, c = t.numbers(e)
    if not (a.exact and b.exact and c.exact):
        return _unmodelled(t, e)
    within = z3.And(a.value >= 0, b.value > 0, c.value > 0)
    other = t.unknown("ModularIndexing of negative numbers", [a, b, c], integer=True)
    return t.choice(within, NumberTerm(a.value / b.value % c.value), other, *needs(a, b, c), *nonzero(b), *nonzero(c))


@worth(shape.LShift)
def _left_shift(t: Translation, e: Any) -> NumberTerm:
    number, power = t.number(e.args[0]), t.number(shape.PowByNatural(2, e.args[1]))
    return NumberTerm(number.value * power.value, None, needs(number, power))


@worth(shape.RShift)
def _right_shift(t: Translation, e: Any) -> NumberTerm:
    number, power = t.number(e.args[0]), t.number(shape.PowByNatural(2, e.args[1]))
    return NumberTerm(floor_division(number.value, power.value), None, needs(number, power))


def _bitwise(name: str, on_bools: Callable[[Any, Any], Any], of_and: Callable[[Any, Any, Any], Any]) -> Rule:
    """The rule for an operator, from what it does to truth values and what it is, given both operands and their `&`."""

    def rule(t: Translation, e: Any) -> NumberTerm:
        if all(map(is_condition, e.args)):
            return t.number(on_bools(*e.args))
        a, b = t.numbers(e)
        if not z3.is_int_value(b.value):
            a, b = b, a
        if z3.is_int_value(b.value):
            both = bits(a.value, b.value.as_long())
        else:
            a, b = sorted((a, b), key=lambda number: number.value.get_id())
            both = t.uninterpreted("&", [a, b], integer=True).value
            t.facts += [z3.Implies(side.value >= 0, z3.And(both >= 0, both <= side.value)) for side in (a, b)]
        return NumberTerm(of_and(a.value, b.value, both), None, needs(a, b))

    return worth(getattr(shape, f"BitwiseFn_bitwise_{name}"))(rule)


_bitwise("and", sympy.And, lambda a, b, both: both)
_bitwise("or", sympy.Or, lambda a, b, both: a + b - both)
_bitwise("xor", sympy.Xor, lambda a, b, both: a + b - 2 * both)


@worth(shape.IntTrueDiv, shape.FloatTrueDiv)
def _true_division(t: Translation, e: Any) -> NumberTerm:
    a, b = t.numbers(e)
    if a.exact and b.exact and e.func is shape.IntTrueDiv:  # rounded once: not the quotient of rounded integers
        return t.finite(t.rounded(t.real(a.value) / t.real(b.value)), (*needs(a, b), *nonzero(b)))
    return t.float_operation("quotient", lambda a, b: a / b, a, b, *nonzero(b))


@worth(shape.ToFloat)
def _to_float(t: Translation, e: Any) -> NumberTerm:
    return t.as_operand(t.number(e.args[0]))


def _to_int(*classes: Any, made_integer: Callable[[Any], Any]) -> None:
    """The rule for a conversion to int, which Python refuses for infinities and nan."""

    def rule(t: Translation, e: Any) -> NumberTerm:
        number = t.number(e.args[0])
        is_finite = () if number.exact else (number.kind == FINITE,)
        return NumberTerm(number.value if number.value.is_int() else made_integer(number.value), None, (*number.defined, *is_finite))

    worth(*classes)(rule)


_to_int(shape.FloorToInt, sympy.floor, made_integer=z3.ToInt)
_to_int(shape.CeilToInt, sympy.ceiling, made_integer=ceiling)
_to_int(shape.TruncToInt, made_integer=truncated)
_to_int(shape.RoundToInt, made_integer=rounded_to_even)


@worth(sympy.Abs)
def _absolute(t: Translation, e: Any) -> NumberTerm:
    number = t.number(e.args[0])
    return NumberTerm(magnitude(number.value), None if number.exact else magnitude(number.kind), number.defined)


def _extreme(*classes: Any, relation: Any) -> None:
    """The rule for the least or greatest of numbers. With a nan, it depends on the order, which sympy forgets."""

    def rule(t: Translation, e: Any) -> NumberTerm:
        numbers = t.numbers(e)
        best = numbers[0]
        for number in numbers[1:]:
            best = t.choice(t.compare(RELATIONS[relation], number, best), NumberTerm(number.value, number.kind), NumberTerm(best.value, best.kind))
        floats = [number for number in numbers if not number.exact]
        if floats:
            some_nan = z3.Or([number.kind == NAN for number in floats])
            best = t.choice(some_nan, t.uninterpreted(e.func.__name__ + " with nan", numbers, integer=False), best)
        return NumberTerm(best.value, best.kind, needs(*numbers))

    worth(*classes)(rule)


_extreme(shape.Max, sympy.Max, relation=sympy.Gt)
_extreme(shape.Min, sympy.Min, relation=sympy.Lt)


@worth(shape.Where)
def _where(t: Translation, e: Any) -> NumberTerm:
    condition, then, other = e.args
    true, false = t.truth(condition), t.truth(condition, False)
    return t.choice(true, t.number(then), t.number(other), z3.Or(true, false))


@worth(sympy.Piecewise)
def _piecewise(t: Translation, e: Any) -> NumberTerm:
    *cases, last = e.args
    if last.args[1] != sympy.true:
        return _unmodelled(t, e)
    result = t.number(last.args[0])
    for then, condition in reversed(cases):
        true, false = t.truth(condition), t.truth(condition, False)
        result = t.choice(true, t.number(then), result, z3.Or(true, false))
    return result


@worth(shape.Identity)
def _identity(t: Translation, e: Any) -> NumberTerm:
    return t.number(e.args[0])


@worth(shape.IsNonOverlappingAndDenseIndicator)
def _indicator(t: Translation, e: Any) -> NumberTerm:
    result = t.uninterpreted(e.func.__name__, t.numbers(e), integer=True)
    t.facts.append(z3.And(result.value >= 0, result.value <= 1))
    return result
