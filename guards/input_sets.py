"""Compares the sets of inputs that entries accept: whether one contains another, which guards tell them apart, and which member is the smallest.

    wide = InputSet([s >= 2], {("x", "size", 0): s})
    even = InputSet([Eq(Mod(t, 2), 0), t >= 2], {("x", "size", 0): t})
    subsumes(wide, even)        # True: an entry with the guards of `even` is superfluous beside one with those of `wide`
    smallest([Eq(Mod(t, 7), 0), t > 10], {t: 2})        # {t: 14}
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

import sympy
import z3

from framejit.guards.prove import Prover, Ranges, bounds
from framejit.guards.shape_values import NoPythonValue, name_of, value_of
from framejit.guards.to_z3 import Translation
from framejit.guards.z3_numbers import NumberTerm, magnitude
from framejit.quick_dataclass import dataclass


class Undecided(Exception):
    """z3 hasn't found an answer in the time that it had."""


@dataclass(frozen=True)
class InputSet:
    """The inputs that an entry accepts, described by conditions on their numbers.

    Attributes:
        guards: sympy conditions over symbols.
        reads: for each number that the entry reads from its input, by a name that is the same in all entries, the symbol or expression that it must equal.
            Two reads with the same symbol must be equal.
        ranges: the ranges of the symbols.
    """

    guards: Sequence[Any]
    reads: Mapping[Any, Any]
    ranges: Ranges = field(default_factory=dict)


Requirement = Any
"""A requirement on inputs: a condition, or a pair of a read and the value that it must have."""


class _Requirements:
    """The requirements of an input set as z3 terms, over variables that stand for the numbers read and are common to all sets of one comparison.

    Attributes:
        terms: for each requirement, a term that says that an input satisfies it.
        unread: symbols that aren't read. A number must exist for each of them, about which z3 isn't asked.
    """

    def __init__(self, inputs: InputSet, context: z3.Context, prefix: str) -> None:
        self._translation = Translation(context, prefix=prefix)
        symbols: dict[str, NumberTerm] = {}
        others: list[tuple[Hashable, Any]] = []
        for read, expression in inputs.reads.items():
            if isinstance(expression, sympy.Symbol) and name_of(expression) not in symbols:
                symbols[name_of(expression)] = self._variable(read, expression)
            else:
                others.append((read, expression))
        self._translation.symbols.update(symbols)
        self.terms: list[tuple[Requirement, Any]] = [((read, expression), self._is(read, expression)) for read, expression in others]
        self.terms += [(condition, self._translation.truth(condition)) for condition in (*inputs.guards, *bounds(inputs.ranges))]
        self.unread = set(self._translation.symbols) - set(symbols)

    @property
    def facts(self) -> list[Any]:
        """Terms that hold for every input."""
        return self._translation.facts

    def _variable(self, read: Hashable, expression: Any) -> NumberTerm:
        make = self._translation.integer_variable if expression.is_integer else self._translation.float_variable
        return make(f"read {read!r}")

    def _is(self, read: Hashable, expression: Any) -> Any:
        number = self._translation.number(expression)
        equal = self._translation.compare(lambda a, b: a == b, self._variable(read, expression), number)
        return z3.And(*number.defined, equal)


class _ComparedSets:
    """Input sets over common variables, with a z3 solver that answers questions about them."""

    def __init__(self, sets: Sequence[InputSet], budget_seconds: float) -> None:
        context = z3.Context()
        self._deadline = time.monotonic() + budget_seconds
        self.sets = [_Requirements(inputs, context, f"{i}: ") for i, inputs in enumerate(sets)]
        self._solver = z3.Solver(ctx=context)
        self._solver.set("ctrl_c", False)
        for requirements in self.sets:
            self._solver.add(requirements.facts)

    def excludes(self, assumed: Iterable[Any], denied: Iterable[Any]) -> bool:
        """Return whether no input satisfies everything in `assumed` without satisfying everything in `denied`. False if z3 can't decide it."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            return False
        self._solver.set("timeout", max(1, int(left * 1000)))
        denied = list(denied)
        not_all = [z3.Not(z3.And(denied))] if denied else []
        return bool(denied) and bool(self._solver.check(*assumed, *not_all) == z3.unsat)


def subsumes(general: InputSet, special: InputSet, budget_seconds: float = 1.0) -> bool:
    """Return whether it is proven that every input in `special` is in `general`, so that an entry for `special` is superfluous beside one for `general`."""
    comparison = _ComparedSets((general, special), budget_seconds)
    wide, narrow = comparison.sets
    required = [term for _, term in wide.terms]
    return not wide.unread and (not required or comparison.excludes([term for _, term in narrow.terms], required))


def tells_apart(entries: Sequence[InputSet], budget_seconds: float = 1.0) -> tuple[tuple[Requirement, ...], ...]:
    """For each of several entries, find requirements that suffice to tell it from the others, such that none of them can be left out.

    If an input is in one of the sets, and satisfies these requirements of an entry, it is in that entry's set. A requirement counts as needed if z3 can't
    decide in its time whether it is.
    """
    comparison = _ComparedSets(entries, budget_seconds)
    return tuple(_needed(comparison, i) for i in range(len(entries)))


def _needed(comparison: _ComparedSets, index: int) -> tuple[Requirement, ...]:
    """The requirements of one set that are needed to tell it from the other sets."""
    own, others = comparison.sets[index], [other for i, other in enumerate(comparison.sets) if i != index]
    required = [term for _, term in own.terms]
    needed = list(own.terms)
    for requirement in own.terms if not own.unread else ():
        rest = [other for other in needed if other is not requirement]
        if all(comparison.excludes([term for _, term in (*other.terms, *rest)], required) for other in others):
            needed = rest
    return tuple(requirement for requirement, _ in needed)


def negations(guards: Sequence[Any]) -> list[tuple[Any, ...]]:
    """For each guard, the conditions of inputs that pass all guards before it and fail this one. Together, these are all inputs that fail a guard."""
    return [(*guards[:i], sympy.Not(guard)) for i, guard in enumerate(guards)]


def smallest(
    constraints: Sequence[Any], symbols: Mapping[Any, int | None], budget_seconds: float = 1.0, near: Mapping[Any, int] | None = None
) -> dict[Any, int] | None:
    """Find the smallest integers that satisfy the constraints; None if there are none.

    `symbols` maps each symbol to its lower bound, or to None. The integers are smallest if the sum of their distances from the bounds (or from 0) is smallest,
    then the first symbol's distance, then the next one's. With `near`, distances are measured from the numbers that it has for the symbols.

    If time runs out, the integers satisfy the constraints, but may not be the smallest. Raises Undecided if none were found.
    """
    conditions = [*constraints, *bounds({symbol: (lower, None) for symbol, lower in symbols.items()})]
    prover = Prover(conditions, time.monotonic() + budget_seconds)
    terms = [prover.translation.symbol(symbol).value for symbol in symbols]
    prover.assert_facts()
    origins = [near[symbol] if near is not None else lower or 0 for symbol, lower in symbols.items()]
    distances = [magnitude(term - origin) for term, origin in zip(terms, origins, strict=True)]
    total = z3.Sum([prover.translation.integer(0), *distances])
    excluded_unseen = False
    while (answer := prover.check()) == z3.sat:
        model = prover.solver.model()
        prover.solver.push()
        for objective in (total, *distances):
            model = _least(prover, objective, model)
        prover.solver.pop()
        found = prover.assignment(model)
        right = _satisfies(found, conditions)
        if right:
            return {symbol: int(found[name_of(symbol)]) for symbol in symbols}
        excluded_unseen |= right is None
        prover.solver.add(z3.Or(*(term != found[name_of(symbol)] for term, symbol in zip(terms, symbols)), prover.translation.context))
    if answer == z3.unknown or excluded_unseen:
        raise Undecided("no numbers were found that satisfy the constraints, and it wasn't proven that there are none")
    return None


def _least(prover: Prover, objective: Any, model: Any) -> Any:
    """A model in which a non-negative Int is as small as can be found. The solver is told that it isn't larger from now on."""
    least, value = 0, model.eval(objective, model_completion=True).as_long()
    while least < value:
        middle = (least + value) // 2
        prover.solver.push()
        prover.solver.add(objective <= middle)
        if prover.check(prover.seconds_left() / 4) == z3.sat:
            model = prover.solver.model()
            value = model.eval(objective, model_completion=True).as_long()
        else:
            least = middle + 1
        prover.solver.pop()
    prover.solver.add(objective == value)
    return model


def _satisfies(numbers: Mapping[str, int | float], conditions: Iterable[Any]) -> bool | None:
    """Return whether conditions are true when Python evaluates them; None if that can't be decided."""
    try:
        return all(value_of(condition, numbers) for condition in conditions)
    except NoPythonValue:
        return None
    except (ArithmeticError, ValueError, TypeError):
        return False
