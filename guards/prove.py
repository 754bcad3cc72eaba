"""Proves with z3 that the guards on sizes imply every decision of a trace, or finds numbers for which they don't.

    prove([Eq(Mod(s, 4), 0)], [(Eq(Mod(s, 2), 0), line, "x.size(0) is even")], ranges={s: (2, None)}).require()

The guards are sympy conditions that an entry checks, or the programs made from them. The decisions are conditions that its trace has taken to be true.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import sympy
import z3
from torch.utils._sympy.numbers import is_infinite

from framejit.errors import FramejitError
from framejit.guards.program_to_z3 import demanded
from framejit.guards.shape_values import NoPythonValue, name_of, value_of
from framejit.guards.shape_vm import ShapeProgram
from framejit.guards.to_z3 import Translation
from framejit.guards.z3_numbers import FINITE, NAN, OVERFLOW
from framejit.quick_dataclass import dataclass

Ranges = Mapping[Any, tuple[Any, Any]]
"""The smallest and the largest value of each symbol; None or an infinity if there is no bound."""
Program = tuple[ShapeProgram, Sequence[Any]]
"""A program of the guard walk, and the symbols that its inputs stand for."""
Assignment = dict[str, int | float]
"""Numbers for symbols, by name."""
SMALL = (10, 100, 1000)
"""Counterexamples are first searched among numbers up to these."""
NO_TIME = "z3 could neither prove nor refute it in its time"
LEAST_SECONDS = 0.02
"""The shortest time for which z3 is asked."""


class TraceDecision(NamedTuple):
    """A condition that a trace has taken to be true. `line`: the line of the user's program, for reports; `text`: the condition in words for users."""

    condition: Any
    line: Any
    text: str


@dataclass(frozen=True)
class Proof:
    """The result for one decision. `counterexample`: if it is refuted, numbers that satisfy all guards but not the decision."""

    decision: TraceDecision
    outcome: Literal["proven", "refuted", "unknown"]
    counterexample: Assignment | None = None
    why: str = ""

    def describe(self, called: Mapping[str, str]) -> str:
        """The result in words for a user. `called` has the program's names for the symbols."""
        line = self.decision.line
        place = "" if line is None else "\n" + (line.render() if hasattr(line, "render") else f"  {line}")
        if self.counterexample is None:
            return f"{self.decision.text}: {self.why}{place}"
        named = {name_of(symbol) for symbol in sympy.sympify(self.decision.condition).free_symbols} or set(self.counterexample)
        numbers = ", ".join(f"{called.get(name, name)} = {value!r}" for name, value in sorted(self.counterexample.items()) if name in named)
        return f"{self.decision.text} doesn't follow: the guards hold for {numbers or 'all calls'}, where {self.why}{place}"


@dataclass(frozen=True)
class Verdict:
    """The results for all decisions.

    Attributes:
        satisfiable: False if z3 has proven that no call can satisfy the guards; None if it couldn't decide that.
        seconds: how long it took.
        called: the program's names for the symbols.
    """

    proofs: tuple[Proof, ...]
    satisfiable: bool | None
    seconds: float
    called: Mapping[str, str]

    @property
    def refuted(self) -> tuple[Proof, ...]:
        return tuple(proof for proof in self.proofs if proof.outcome == "refuted")

    @property
    def unknown(self) -> tuple[Proof, ...]:
        return tuple(proof for proof in self.proofs if proof.outcome == "unknown")

    @property
    def holds(self) -> bool:
        """Return whether every decision is proven, and the guards don't contradict each other."""
        return self.satisfiable is not False and all(proof.outcome == "proven" for proof in self.proofs)

    def describe(self) -> str:
        """The results in words for a user: first the decisions that don't follow, then those that are undecided."""
        parts = ["no call can satisfy the guards: they contradict each other"] if self.satisfiable is False else []
        parts += [proof.describe(self.called) for proof in (*self.refuted, *self.unknown)]
        proven = len(self.proofs) - len(self.refuted) - len(self.unknown)
        return "\n".join([f"{proven} of {len(self.proofs)} decisions follow from the guards ({self.seconds:.2f} s)", *parts])

    def require(self) -> None:
        """Raise GuardsTooWeak if a decision is refuted, or if the guards contradict each other."""
        if self.refuted or self.satisfiable is False:
            raise GuardsTooWeak(self)


class GuardsTooWeak(FramejitError):
    """The guards on sizes of an entry don't imply everything that its trace has taken to be true, so the entry would run for calls that it is wrong for."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(f"the shape guards of a compiled entry are wrong: {verdict.describe()}")
        self.verdict = verdict


def prove(
    guards: Iterable[Any],
    decisions: Iterable[tuple[Any, Any, str]],
    ranges: Ranges | None = None,
    budget_seconds: float = 5.0,
    called: Mapping[str, str] | None = None,
    programs: Iterable[Program] = (),
) -> Verdict:
    """Find out whether an entry that checks `guards`, `ranges` and `programs` runs only if each of the decisions is true. Integers beyond 64 bits never fit.

    If the budget, which is for all decisions together, doesn't suffice, decisions remain unknown. Facts that a program doesn't check because they always
    hold (sizes aren't negative) belong into `ranges`. `called`: the user's names for the symbols, by their names.
    """
    started = time.monotonic()
    ranges = ranges or {}
    guards = list(guards)
    asked = [TraceDecision(*decision) for decision in decisions]
    known = {consequence for guard in guards for consequence in consequences(guard)}
    prover = Prover([*guards, *bounds(ranges)], started + budget_seconds, programs)
    satisfiable = prover.is_satisfiable()
    proofs = [Proof(decision, "proven") if is_plain(decision.condition, known, ranges) else Proof(decision, "unknown", None, NO_TIME) for decision in asked]
    for patience, afresh in ((0.25, False), (0.5, True), (1.0, False)):  # what is easy to prove comes first, whatever the order
        left = [i for i, proof in enumerate(proofs) if proof.why is NO_TIME]
        for position, i in enumerate(left):
            proofs[i] = prover.proof(asked[i], patience * prover.seconds_left() / (len(left) - position), afresh)
    return Verdict(tuple(proofs), satisfiable, time.monotonic() - started, called or {})


def bounds(ranges: Ranges) -> list[Any]:
    """Ranges as conditions."""
    relations = []
    for symbol, limits in ranges.items():
        for relation, limit in zip((sympy.Ge, sympy.Le), limits):
            if limit is not None and not is_infinite(sympy.sympify(limit)):
                relations.append(relation(symbol, limit, evaluate=False))
    return relations


WEAKER: dict[Any, tuple[Any, ...]] = {sympy.Eq: (sympy.Ge, sympy.Le), sympy.Gt: (sympy.Ge, sympy.Ne), sympy.Lt: (sympy.Le, sympy.Ne)}


def consequences(guard: Any) -> Iterator[Any]:
    """Conditions that obviously follow from `guard`: its parts, weaker relations, and the same relations with the sides exchanged."""
    if isinstance(guard, sympy.And):
        for part in guard.args:
            yield from consequences(part)
        return
    yield guard
    if type(guard) in WEAKER or isinstance(guard, (sympy.Ge, sympy.Le, sympy.Ne)):
        for relation in (guard.func, *WEAKER.get(type(guard), ())):
            weaker = relation(*guard.args, evaluate=False)
            yield from (weaker, weaker.reversed)


def is_plain(condition: Any, known: set[Any], ranges: Ranges) -> bool:
    """Return whether a condition obviously holds: it is known, or compares one symbol with a number outside of the symbol's range."""
    if condition in (True, sympy.true) or condition in known:
        return True
    if isinstance(condition, (sympy.And, sympy.Or)):
        parts = (is_plain(part, known, ranges) for part in condition.args)
        return all(parts) if isinstance(condition, sympy.And) else any(parts)
    if not isinstance(condition, sympy.core.relational.Relational):
        return False
    if isinstance(condition.rhs, sympy.Symbol):
        condition = condition.reversed
    symbol, number = condition.args
    if symbol not in ranges or not isinstance(number, sympy.Integer) or not symbol.is_integer:
        return False
    lower, upper = ranges[symbol]
    above = lower is not None and (lower > number or isinstance(condition, sympy.Ge) and lower >= number)
    below = upper is not None and (upper < number or isinstance(condition, sympy.Le) and upper <= number)
    return bool({sympy.Ne: above or below, sympy.Ge: above, sympy.Gt: above, sympy.Le: below, sympy.Lt: below}.get(type(condition), False))


class Prover:
    """Asks z3 what follows from conditions and programs, which are taken to hold, until `deadline` (of time.monotonic)."""

    def __init__(self, conditions: Iterable[Any], deadline: float, programs: Iterable[Program] = ()) -> None:
        self.translation = Translation(z3.Context())
        self.solver = z3.Solver(ctx=self.translation.context)
        self._deadline = deadline
        self._conditions = list(conditions)
        self._programs = list(programs)
        self._facts = 0
        for condition in self._conditions:
            self.solver.add(self.translation.truth(condition))
        for program, symbols in self._programs:
            self.solver.add(demanded(self.translation, program, [self.translation.symbol(symbol) for symbol in symbols]))

    def seconds_left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def check(self, seconds: float | None = None, afresh: bool = False) -> Any:
        """Ask z3 whether the assertions can be satisfied: sat, unsat or unknown. `afresh` asks another solver, which simplifies first and keeps no model."""
        seconds = min(self.seconds_left(), self.seconds_left() if seconds is None else max(seconds, LEAST_SECONDS))
        if seconds <= 0:
            return z3.unknown
        solver = self.solver
        if afresh:
            solver = z3.Solver(ctx=self.translation.context)
            solver.add(self.solver.assertions())
        solver.set("timeout", max(1, int(seconds * 1000)))
        solver.set("ctrl_c", False)  # z3 would swallow a Ctrl-C of the user's
        return solver.check()

    def assert_facts(self) -> None:
        """Assert the facts about all terms that were made since the last time."""
        self.solver.add(self.translation.facts[self._facts :])
        self._facts = len(self.translation.facts)

    def is_satisfiable(self) -> bool | None:
        """Return whether some numbers satisfy the conditions; None if z3 can't decide it."""
        self.assert_facts()
        answer = self.check(self.seconds_left() / 4)
        return None if answer == z3.unknown else bool(answer == z3.sat)

    def proof(self, decision: TraceDecision, seconds: float, afresh: bool = False) -> Proof:
        """Return whether a decision follows from the conditions. It is refuted only by the solver that is kept: not `afresh`."""
        if self.seconds_left() == 0:
            return Proof(decision, "unknown", None, NO_TIME)
        truth = self.translation.truth(decision.condition)
        self.assert_facts()
        self.solver.push()
        try:
            self.solver.add(z3.Not(truth))
            answer = self.check(seconds, afresh)
            if answer == z3.unsat:
                return Proof(decision, "proven")
            if afresh or answer == z3.unknown:
                return Proof(decision, "unknown", None, NO_TIME)
            for numbers in self.assignments():
                fault = self.fault(decision.condition, numbers)
                if fault is not None:
                    return Proof(decision, "refuted", numbers, fault)
        finally:
            self.solver.pop()
        alone = Translation(self.translation.context)
        alone.truth(decision.condition)
        names = ", ".join(sorted(alone.unmodelled or self.translation.unmodelled)) or "floats"
        return Proof(decision, "unknown", None, f"it can't be proven without knowing more of: {names}")

    def assignments(self) -> Iterator[Assignment]:
        """Numbers that satisfy the assertions, as far as z3 knows; small ones come first. The answer of the last check must be sat."""
        first = self.solver.model()
        integers = [term.value for term in self.translation.symbols.values() if term.exact]
        for limit in SMALL:
            self.solver.push()
            self.solver.add([z3.And(value >= -limit, value <= limit) for value in integers])
            if self.check(0.1) == z3.sat:
                yield self.assignment(self.solver.model())
            self.solver.pop()
        yield self.assignment(first)

    def assignment(self, model: Any) -> Assignment:
        """The numbers that a model has for the symbols."""
        return {name: self.number(model, term) for name, term in self.translation.symbols.items()}

    def number(self, model: Any, term: Any) -> int | float:
        """The value of a term in a model, as an int or as the nearest float."""
        value = model.eval(term.value, model_completion=True)
        if term.exact:
            return int(value.as_long())
        kind = model.eval(term.kind, model_completion=True).as_long()
        if kind != FINITE:
            return float("nan") if kind == NAN else kind * float("inf")
        exact = value.approx(20) if z3.is_algebraic_value(value) else value
        exact = Fraction(exact.numerator_as_long(), exact.denominator_as_long())
        return float(exact) if abs(exact) < OVERFLOW else float("inf")

    def fault(self, condition: Any, numbers: Assignment) -> str | None:
        """If numbers satisfy all other conditions and fail this one, as Python computes them, a text that says how; None if that isn't certain."""
        try:
            accepted = all(program.failing([numbers[name_of(symbol)] for symbol in symbols]) is None for program, symbols in self._programs)
            if not accepted or not all(value_of(other, numbers) for other in self._conditions):
                return None
        except (NoPythonValue, ArithmeticError, ValueError, TypeError):
            return None
        try:
            return None if value_of(condition, numbers) else "it is false"
        except (NoPythonValue, TypeError):
            return None
        except (ArithmeticError, ValueError) as error:
            return f"it raises {type(error).__name__}: {error}"
