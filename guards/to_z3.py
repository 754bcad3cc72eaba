"""Translates shape expressions, which are sympy expressions as torch's ShapeEnv writes them, into z3 terms.

A condition counts as true if Python computes it without an error and finds it true: `s // t == 1` is neither true nor false for t == 0.
`z3_numbers.py` represents the numbers. A function without a rule here is left uninterpreted, and `unmodelled` names it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import sympy
import z3
from sympy.core import numbers as constants
from sympy.logic.boolalg import Boolean, BooleanAtom
from torch.utils._sympy import functions as shape
from torch.utils._sympy.numbers import IntInfinity, NegativeIntInfinity

from framejit.guards.shape_values import name_of
from framejit.guards.z3_numbers import (
    INFINITE,
    NAN,
    Numbers,
    NumberTerm,
    absolute,
    ceiling,
    floor_division,
    made_integer,
    modulo,
    needs,
    negated,
    nonzero,
    rounded_to_even,
    truncated,
)

Rule = Callable[["Translation", Any], NumberTerm]
RULES: dict[Any, Rule] = {}
"""The rules, by the class of an expression: each makes the term of an expression's value."""


def worth(*classes: Any) -> Callable[[Rule], Rule]:
    """Register the decorated rule for expressions of `classes`."""

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
        """A z3 term that says that `condition` is computed without an error, and is as expected."""
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
        """Return whether a relation holds, and what must hold for Python to compute it."""
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
        """The term of a symbol, which is an integer or a float. Raises ValueError if the name was used for a number of the other type."""
        name = name_of(symbol)
        term = self.symbols.get(name)
        if term is None:
            make = self.integer_variable if symbol.is_integer else self.float_variable
            term = self.symbols[name] = make(self._prefix + name)
        if term.exact != bool(symbol.is_integer):
            raise ValueError(f"{name} stands for an integer and for a float")
        return term


RELATIONS: dict[Any, Callable[[Any, Any], Any]] = {
    sympy.Eq: operator.eq,
    sympy.Lt: operator.lt,
    sympy.Le: operator.le,
    sympy.Gt: operator.gt,
    sympy.Ge: operator.ge,
}


def is_condition(expression: Any) -> bool:
    """Return whether an expression is a truth value. Sympy's symbols could be either, and count as numbers here."""
    return isinstance(expression, (bool, Boolean)) and not isinstance(expression, sympy.Symbol)


def _condition(t: Translation, e: Any) -> NumberTerm:
    """A condition as 1 or 0."""
    true, false = t.truth(e), t.truth(e, False)
    return NumberTerm(z3.If(true, t.integer(1), t.integer(0)), None, (z3.Or(true, false),))


def _unmodelled(t: Translation, e: Any) -> NumberTerm:
    """The term of an expression without a rule: an uninterpreted function."""
    return t.unknown(e.func.__name__ if e.args else sympy.srepr(e), t.numbers(e), bool(e.is_integer))


worth(sympy.Symbol, sympy.Dummy)(Translation.symbol)


@worth(sympy.Integer, constants.Zero, constants.One, constants.NegativeOne)
def _integer(t: Translation, e: Any) -> NumberTerm:
    return NumberTerm(t.integer(int(e)))


@worth(sympy.Rational, constants.Half)
def _rational(t: Translation, e: Any) -> NumberTerm:
    return NumberTerm(t.real(Fraction(int(e.p), int(e.q))))


@worth(sympy.Float)
def _float(t: Translation, e: Any) -> NumberTerm:
    number = float(e)
    return t.finite(Fraction(number)) if math.isfinite(number) else _not_finite(t, e)  # a product of two floats may be larger than any of Python's


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
    return t.float_operation("sum", operator.add, *terms)


@worth(sympy.Mul)
def _product(t: Translation, e: Any) -> NumberTerm:
    factors = t.numbers(e)
    if all(factor.exact for factor in factors):
        return NumberTerm(z3.Product([factor.value for factor in factors]), None, needs(*factors))
    if e.args[0] == -1:
        return negated(factors[1] if len(factors) == 2 else t.number(sympy.Mul(*e.args[1:], evaluate=False)))
    if len(factors) > 2:
        return t.uninterpreted("product of floats", factors, integer=False)
    return t.float_operation("product", operator.mul, *factors)


@worth(sympy.Pow, shape.PowByNatural)
def _power(t: Translation, e: Any) -> NumberTerm:
    base, exponent = t.numbers(e)
    constant = z3.is_int_value(exponent.value)
    if not (base.exact and exponent.exact) or (e.func is sympy.Pow and not constant):
        return _unmodelled(t, e)
    if constant and exponent.value.as_long() < 0:
        power = t.power(base, NumberTerm(t.integer(-exponent.value.as_long())))
        return NumberTerm(1 / t.real(power.value), None, (*power.defined, *nonzero(base)))
    return t.power(base, exponent)


def _of_exact(compute: Callable[[Translation, NumberTerm, NumberTerm], NumberTerm]) -> Rule:
    """The rule for an operation on two integers or rationals. On floats it is left uninterpreted."""

    def rule(t: Translation, e: Any) -> NumberTerm:
        a, b = t.numbers(e)
        return compute(t, a, b) if a.exact and b.exact else _unmodelled(t, e)

    return rule


worth(shape.FloorDiv, shape.CleanDiv)(_of_exact(lambda t, a, b: t.divided(floor_division, a, b)))
worth(shape.Mod, shape.PythonMod, sympy.Mod)(_of_exact(lambda t, a, b: t.divided(modulo, a, b)))


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


def _bitwise(name: str, on_conditions: Callable[[Any, Any], Any]) -> None:
    """The rule for an operator on integers, from what it is of two conditions."""

    def rule(t: Translation, e: Any) -> NumberTerm:
        if all(map(is_condition, e.args)):
            return t.number(on_conditions(*e.args))
        result: NumberTerm = getattr(t, f"bit_{name}")(*t.numbers(e))
        return result

    worth(getattr(shape, f"BitwiseFn_bitwise_{name}"))(rule)


_bitwise("and", sympy.And)
_bitwise("or", sympy.Or)
_bitwise("xor", sympy.Xor)


@worth(shape.IntTrueDiv, shape.FloatTrueDiv)
def _true_division(t: Translation, e: Any) -> NumberTerm:
    a, b = t.numbers(e)
    if a.exact and b.exact and e.func is shape.IntTrueDiv:  # rounded once: not the quotient of rounded integers
        return t.finite(t.rounded(t.real(a.value) / t.real(b.value)), (*needs(a, b), *nonzero(b)))
    return t.float_operation("quotient", operator.truediv, a, b, *nonzero(b))


@worth(shape.ToFloat)
def _to_float(t: Translation, e: Any) -> NumberTerm:
    return t.as_operand(t.number(e.args[0]))


@worth(shape.FloorToInt, sympy.floor)
def _floor(t: Translation, e: Any) -> NumberTerm:
    return made_integer(z3.ToInt, t.number(e.args[0]))


@worth(shape.CeilToInt, sympy.ceiling)
def _ceiling(t: Translation, e: Any) -> NumberTerm:
    return made_integer(ceiling, t.number(e.args[0]))


@worth(shape.TruncToInt)
def _truncated(t: Translation, e: Any) -> NumberTerm:
    return made_integer(truncated, t.number(e.args[0]))


@worth(shape.RoundToInt)
def _rounded(t: Translation, e: Any) -> NumberTerm:
    return made_integer(rounded_to_even, t.number(e.args[0]))


@worth(sympy.Abs)
def _absolute(t: Translation, e: Any) -> NumberTerm:
    return absolute(t.number(e.args[0]))


@worth(shape.Max, sympy.Max)
def _greatest(t: Translation, e: Any) -> NumberTerm:
    return t.extreme(operator.gt, *t.numbers(e))


@worth(shape.Min, sympy.Min)
def _least(t: Translation, e: Any) -> NumberTerm:
    return t.extreme(operator.lt, *t.numbers(e))


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
