"""Guards that imply every decision of a trace are proven to; a guard that is missing or wrong is found, with numbers for which it matters."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from typing import Any

import pytest
import sympy
from shape_terms import s, t, x
from torch.utils._sympy import functions as shape
from traced_shapes import PROGRAMS, TracedShapes, traced

from framejit.guards import shape_program
from framejit.guards.prove import GuardsTooWeak, Verdict, bounds, prove
from framejit.guards.shape_program import compile_shapes
from framejit.guards.shape_values import value_of
from framejit.guards.source import UserLine

u = sympy.Symbol("u", integer=True)
SIZES = {s: (2, None), t: (2, None), u: (2, None)}
Mod, FloorDiv, ToFloat, Eq, Ne = shape.PythonMod, shape.FloorDiv, shape.ToFloat, sympy.Eq, sympy.Ne


def verdict(guards: list[Any], *decisions: Any, ranges: Any = None, budget: float = 10.0) -> Verdict:
    return prove(guards, [(decision, None, str(decision)) for decision in decisions], ranges, budget)


FOLLOWS = {
    "a guard": ([Eq(Mod(s, 4), 0)], Eq(Mod(s, 4), 0)),
    "a part of a guard": ([sympy.And(s > 3, t < 5)], t < 5),
    "a guard from right to left": ([Eq(s * t, u)], Eq(u, s * t)),
    "a weaker relation": ([s * t < u], s * t <= u),
    "a range": ([], s > 1),
    "a range excludes": ([], Ne(s, 0)),
    "one of two": ([], sympy.Or(s * t < 0, s >= 1, evaluate=False)),
    "divisible by 4": ([Eq(Mod(s, 4), 0)], Eq(Mod(s, 2), 0)),
    "divisible by 2 and 3": ([Eq(Mod(s, 2), 0), Eq(Mod(s, 3), 0)], Eq(Mod(s, 6), 0)),
    "of a product": ([Eq(Mod(s, 4), 0)], Eq(Mod(s * t, 4), 0)),
    "a product": ([], s * t * u >= 8),
    "equal sizes": ([Eq(s, t), Eq(t, u)], Eq(s * t, u**2)),
    "a division by a size": ([s >= t], FloorDiv(s, t) >= 1),
    "a quotient and its rest": ([], Eq(FloorDiv(s, t) * t + Mod(s, t), s)),
    "a divisor that divides": ([Eq(Mod(s, t), 0)], Eq(FloorDiv(s, t) * t, s)),
    "a product of the parts": ([Eq(Mod(s, 4), 0), s >= 4], Eq(Mod(s * t * u, 4 * u * FloorDiv(s, 4)), 0)),
    "greatest": ([s > 5], shape.Max(s, t) > 5),
    "mask": ([], shape.BitwiseFn_bitwise_and(s, 7) < 8),
    "unknown mask": ([], shape.BitwiseFn_bitwise_and(s, t) <= t),
    "shift": ([t > 3], shape.LShift(1, t, evaluate=False) > 4),
    "scaled": ([], shape.FloorToInt(2.0 * ToFloat(s)) >= 4),
    "scaled by what is no float": ([], shape.TruncToInt(shape.IntTrueDiv(s, 3) * 2.5) >= 1),
    "half": ([s > 5], shape.IntTrueDiv(s, 2) > 2.5),
    "float": ([x > 2.0], x > 1.0),
    "equal floats": ([Eq(x, 2.0)], Ne(x, 3.0)),
    "an unknown function": ([sympy.Function("f")(s) > 3, Eq(s, t)], sympy.Function("f")(t) > 2),
    "square root": ([shape.OpaqueUnaryFn_sqrt(ToFloat(s)) > 2.5, Eq(s, t)], shape.OpaqueUnaryFn_sqrt(ToFloat(t)) > 2.0),
}


@pytest.mark.parametrize("name", FOLLOWS)
def test_what_follows_is_proven(name: str) -> None:
    guards, decision = FOLLOWS[name]
    found = verdict(guards, decision, ranges=SIZES)
    assert found.holds and found.satisfiable, found.describe()
    found.require()


DOES_NOT_FOLLOW = {
    "a stronger relation": ([s >= 2], s > 2),
    "divisible by 2": ([Eq(Mod(s, 2), 0)], Eq(Mod(s, 4), 0)),
    "another size": ([s > 3], t > 3),
    "one of two": ([sympy.Or(s > 3, t > 3)], s > 3),
    "unequal": ([Ne(s, t)], s < t),
    "rounding towards zero": ([Eq(shape.TruncToInt(shape.IntTrueDiv(s, 2)), -3)], Eq(FloorDiv(s, 2), -3)),
    "division by zero": ([], FloorDiv(s, t) * t <= s),
    "not a number": ([Ne(x, 2.0)], sympy.Or(x < 2.0, x > 2.0, evaluate=False)),
    "infinity": ([x > 2.0], x < 1e308),
    "float rounding": ([x > 1.0], x + 1.0 > 2.0),
    "big": ([s > 2**53], Eq(shape.TruncToInt(ToFloat(s)), s)),
    "of a function": ([shape.OpaqueUnaryFn_sqrt(ToFloat(s)) > 2.5], s > 7),
}


WITHOUT_COUNTEREXAMPLE = {"float rounding", "big", "of a function"}
"""z3 doesn't know what rounding or a square root gives, and may propose numbers that are no counterexample."""


@pytest.mark.parametrize("name", DOES_NOT_FOLLOW)
def test_what_does_not_follow_is_never_proven(name: str) -> None:
    guards, decision = DOES_NOT_FOLLOW[name]
    found = verdict(guards, decision)
    assert not found.holds
    assert found.refuted or name in WITHOUT_COUNTEREXAMPLE, found.describe()
    for proof in found.refuted:
        assert proof.counterexample is not None
        assert all(value_of(guard, proof.counterexample) for guard in guards)


def test_the_verdict_names_decision_line_and_counterexample() -> None:
    line = UserLine("model.py", 12, "forward")
    decisions = [(s >= 2, line, "x.size(0) >= 2"), (s >= 3, line, "x.size(0) >= 3"), (t > 0, "there", "y.size(0) > 0")]
    found = prove([t > 1], decisions, {s: (2, None)}, called={"s": "x.size(0)", "t": "y.size(0)"})
    assert [proof.outcome for proof in found.proofs] == ["proven", "refuted", "proven"]
    assert found.refuted[0].counterexample == {"s": 2, "t": found.refuted[0].counterexample["t"]}
    with pytest.raises(GuardsTooWeak, match="x.size\\(0\\) >= 3 doesn't follow: the guards hold for x.size\\(0\\) = 2, where it is false\n") as caught:
        found.require()
    assert 'File "model.py", line 12, in forward' in str(caught.value)
    assert "2 of 3 decisions follow" in str(caught.value)
    assert caught.value.verdict is found


def test_an_error_of_the_decision_is_a_counterexample() -> None:
    found = verdict([], Ne(FloorDiv(7, t), 100))
    assert found.refuted[0].counterexample == {"t": 0}
    assert "it raises ZeroDivisionError" in found.describe()


def test_guards_that_contradict_each_other() -> None:
    found = verdict([s > 3, s < 3], s > 100)
    assert found.satisfiable is False and not found.holds
    with pytest.raises(GuardsTooWeak, match="contradict each other"):
        found.require()


def test_nan_is_found() -> None:
    found = verdict([Ne(x, 2.0)], sympy.Or(x < 2.0, x > 2.0, evaluate=False))
    assert math.isnan(found.refuted[0].counterexample["x"])


@pytest.fixture(autouse=True)
def every_guard_set_is_decided() -> None:
    """Takes the place of the fixture of conftest: here z3 is asked what it can't decide."""


def test_what_is_not_modelled_is_named() -> None:
    found = verdict([], sympy.Function("ceil_log2")(s) > 1)
    assert found.unknown and "ceil_log2" in found.describe()
    found.require()  # nothing is known to be wrong


HARD = Ne(s**3 + t**3, u**3)


@pytest.mark.parametrize("budget", [0.5, 1.5])
def test_the_budget_is_kept(budget: float) -> None:
    """Decisions that are easy to prove are proven, wherever they stand."""
    hard = [Ne(s**3 + t**3, u**3 + 4 * n) for n in range(5)]
    started = time.monotonic()
    found = verdict([], HARD, *hard[:3], s * t >= 4, *hard[3:], s * t * u >= 8, ranges={s: (10**6, None), t: (10**6, None), u: (10**6, None)}, budget=budget)
    assert time.monotonic() - started < 2 * budget + 0.5
    assert found.proofs[0].outcome == "unknown" and "in its time" in found.proofs[0].why
    assert found.proofs[4].outcome == found.proofs[-1].outcome == "proven"


def test_without_time_nothing_is_known() -> None:
    found = verdict([Eq(Mod(s, 4), 0)], Eq(Mod(s, 2), 0), Eq(Mod(s, 4), 0), budget=0.0)
    assert [proof.outcome for proof in found.proofs] == ["unknown", "proven"]
    assert found.satisfiable is None


@pytest.mark.parametrize("name", PROGRAMS)
def test_guards_of_real_programs(name: str) -> None:
    shapes = traced(name)
    found = prove(shapes.guards, shapes.decisions, shapes.ranges, budget_seconds=20.0)
    assert len(found.proofs) > 1
    assert found.holds and found.satisfiable, found.describe()


NEEDED = {"convolution": 2, "comparisons": 2, "slices": 2, "views": 1}
"""Of the guards of a program, how many at least can't be left out: torch keeps guards that others imply."""


@pytest.mark.parametrize("name", NEEDED)
def test_a_guard_that_is_dropped_is_missed(name: str) -> None:
    shapes = traced(name)
    missed = 0
    for i, guard in enumerate(shapes.guards):
        rest = [*shapes.guards[:i], *shapes.guards[i + 1 :]]
        found = prove(rest, shapes.decisions, shapes.ranges, budget_seconds=5.0)
        missed += bool(found.refuted)
        for proof in found.refuted:
            assert not value_of(guard, proof.counterexample)
    assert missed >= NEEDED[name]


def test_a_bound_that_is_off_by_one_is_missed() -> None:
    shapes = traced("comparisons")
    (symbol,) = (symbol for symbol, (lower, _) in shapes.ranges.items() if lower > 2)
    guards = [guard for guard in shapes.guards if symbol not in guard.free_symbols]
    decisions = [decision for decision in shapes.decisions if decision[0].free_symbols == {symbol} and not decision[0].has(shape.Mod)]
    right, wrong = shapes.ranges, {**shapes.ranges, symbol: (shapes.ranges[symbol][0] - 1, shapes.ranges[symbol][1])}
    of_bound = [decision for decision in decisions if prove(guards, [decision], right).holds]
    assert of_bound
    assert [proof.counterexample[symbol.name] for proof in prove(guards, of_bound, wrong).refuted] == [7]


def test_a_guard_with_the_wrong_floor_division_is_noticed() -> None:
    """As C divides: towards zero."""
    shapes = traced("comparisons")
    guards = [guard for guard in shapes.guards if "- 20)//3" in str(guard)]
    decisions = [decision for decision in shapes.decisions if "- 20)//3" in decision[2]]
    towards_zero = [guard.replace(FloorDiv, lambda a, b: shape.TruncToInt(shape.IntTrueDiv(a, b))) for guard in guards]
    assert prove(guards, decisions, shapes.ranges).holds
    assert len(prove(towards_zero, decisions, shapes.ranges).refuted) == len(decisions) == 1


def program_of(shapes: TracedShapes) -> Any:
    """The program that the guard walk would run for guards and ranges, and the symbols of its inputs."""
    symbols = list(shapes.ranges)
    return compile_shapes([*shapes.guards, *bounds(shapes.ranges)], symbols, symbols)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_the_guard_walk_imply_what_was_decided(name: str) -> None:
    shapes = traced(name)
    sizes = dict.fromkeys(shapes.ranges, (0, None))
    found = prove([], shapes.decisions, sizes, budget_seconds=20.0, programs=[program_of(shapes)])
    assert found.holds and found.satisfiable, found.describe()


@pytest.mark.parametrize("rounding", ["floor", "ceil"])
def test_a_program_with_a_bound_that_is_off_by_one_is_noticed(rounding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decisions = [(2 * s >= 7, None, "2 * s >= 7"), (3 * t <= 10, None, "3 * t <= 10")]
    right = compile_shapes([condition for condition, _, _ in decisions])
    assert prove([], decisions, programs=[right]).holds
    correct = getattr(shape_program, rounding)
    monkeypatch.setattr(shape_program, rounding, lambda bound: correct(bound) + (1 if rounding == "floor" else -1))
    (refuted,) = prove([], decisions, programs=[compile_shapes([condition for condition, _, _ in decisions])]).refuted
    assert refuted.decision == decisions[rounding == "floor"]


def test_no_trace_waits_for_the_referee() -> None:
    program = "import sys, torch, framejit; framejit.compile(lambda x: x + 1, backend='eager')(torch.ones(2)); print('framejit.guards.prove' in sys.modules)"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FRAMEJIT_")}
    assert subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True).stdout == "False\n"
