"""Sets of inputs: which one lies in which, what tells them apart, and their smallest members, compared with trying inputs out."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
import sympy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shape_terms import s, t, x
from torch.utils._sympy import functions as shape

from framejit.guards.input_sets import InputSet, Undecided, negations, smallest, subsumes, tells_apart
from framejit.guards.prove import bounds
from framejit.guards.shape_values import value_of

profile = settings(max_examples=40, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
u = sympy.Symbol("u", integer=True)
ROWS, COLUMNS = ("x", "size", 0), ("x", "size", 1)
Mod, Eq, Ne = shape.PythonMod, sympy.Eq, sympy.Ne
SIZES = {s: (2, None), t: (2, None)}


def accepts(inputs: InputSet, **numbers: int) -> bool:
    """Return whether an input with these numbers lies in the set. Each symbol of the set must be a read of the input."""
    found = {read: numbers["rows" if read == ROWS else "columns"] for read in inputs.reads}
    values = {expression.name: found[read] for read, expression in inputs.reads.items() if isinstance(expression, sympy.Symbol)}
    equal = all(value_of(expression, values) == found[read] for read, expression in inputs.reads.items())
    return equal and all(value_of(condition, values) for condition in (*inputs.guards, *bounds(inputs.ranges)))


SETS = {
    "all": InputSet([], {ROWS: s, COLUMNS: t}, SIZES),
    "square": InputSet([], {ROWS: s, COLUMNS: s}, {s: (2, None)}),
    "8 by 8": InputSet([], {ROWS: sympy.Integer(8), COLUMNS: sympy.Integer(8)}),
    "8 columns": InputSet([], {ROWS: u, COLUMNS: sympy.Integer(8)}, {u: (2, None)}),
    "even": InputSet([Eq(Mod(s, 2), 0)], {ROWS: s, COLUMNS: t}, SIZES),
    "by four": InputSet([Eq(Mod(t, 4), 0)], {ROWS: t}, {t: (2, None)}),
    "twice as wide": InputSet([], {ROWS: s, COLUMNS: 2 * s}, {s: (2, None)}),
    "short": InputSet([s < 9], {ROWS: s}, {s: (2, None)}),
    "any": InputSet([], {}),
}


@pytest.mark.parametrize("general, special", list(itertools.product(SETS, repeat=2)))
def test_one_set_lies_in_another(general: str, special: str) -> None:
    grid = itertools.product(range(1, 14), range(1, 28))
    lies_in = all(accepts(SETS[general], rows=a, columns=b) for a, b in grid if accepts(SETS[special], rows=a, columns=b))
    assert subsumes(SETS[general], SETS[special]) is lies_in


def test_symbols_of_two_entries_are_not_mixed_up() -> None:
    swapped = InputSet([s > 5], {ROWS: t, COLUMNS: s}, SIZES)
    assert subsumes(swapped, InputSet([t > 6], {ROWS: s, COLUMNS: t}, SIZES))
    assert not subsumes(swapped, InputSet([t > 6], {ROWS: t, COLUMNS: s}, SIZES))


def test_a_set_over_a_symbol_that_is_not_read_is_not_said_to_hold_another() -> None:
    assert not subsumes(InputSet([], {ROWS: 2 * s}), InputSet([], {ROWS: 2 * s}))
    assert subsumes(InputSet([Eq(Mod(s, 2), 0)], {ROWS: s}), InputSet([], {ROWS: 2 * t}))


def test_floats_are_compared_as_python_does() -> None:
    all_but_two, others = InputSet([Ne(x, 2.0)], {"scale": x}), InputSet([sympy.Or(x < 2.0, x > 2.0, evaluate=False)], {"scale": x})
    assert subsumes(all_but_two, others)
    assert not subsumes(others, all_but_two)  # nan


def test_an_integer_is_no_float() -> None:
    assert not subsumes(InputSet([x > 2.0], {"scale": x}), InputSet([s > 2], {"scale": s}))


def test_guards_that_all_entries_share_do_not_tell_them_apart() -> None:
    fours, others = [InputSet([condition, t > 3], {ROWS: s, COLUMNS: t}, SIZES) for condition in (Eq(Mod(s, 4), 0), Ne(Mod(s, 4), 0))]
    assert tells_apart([fours, others]) == ((fours.guards[0],), (others.guards[0],))
    assert tells_apart([fours]) == ((),)


def test_reads_and_ranges_tell_entries_apart() -> None:
    found = tells_apart([SETS["square"], SETS["8 columns"], InputSet([], {ROWS: s, COLUMNS: t}, {s: (9, None), t: (2, None)})])
    assert found == (((COLUMNS, s),), ((COLUMNS, sympy.Integer(8)),), (sympy.Ge(s, 9),))


def test_what_tells_entries_apart_does() -> None:
    names = [name for name in SETS if len(SETS[name].reads) == 2]
    found = tells_apart([SETS[name] for name in names])
    for a, b in itertools.product(range(1, 14), repeat=2):
        members = [name for name in names if accepts(SETS[name], rows=a, columns=b)]
        for name, needed in zip(names, found):
            told = InputSet([item for item in needed if not isinstance(item, tuple)], symbols_and(SETS[name], needed))
            assert not members or accepts(told, rows=a, columns=b) is (name in members), (name, needed, a, b)


def symbols_and(inputs: InputSet, needed: Any) -> dict[Any, Any]:
    """The reads that give symbols their values, and those among the requirements."""
    first: dict[Any, Any] = {}
    for read, expression in inputs.reads.items():
        if isinstance(expression, sympy.Symbol) and expression not in first.values():
            first[read] = expression
    return {**first, **dict(item for item in needed if isinstance(item, tuple))}


def test_without_time_everything_is_needed_and_nothing_subsumed() -> None:
    assert not subsumes(SETS["all"], SETS["even"], budget_seconds=0.0)
    assert len(tells_apart([SETS["all"], SETS["8 by 8"]], budget_seconds=0.0)[1]) == 2


def test_negations_reach_every_input_that_fails() -> None:
    guards = [s > 4, Eq(Mod(s, 3), 0), Ne(s, 9)]
    reached = negations(guards)
    for n in range(20):
        fits = [all(value_of(condition, {"s": n}) for condition in conditions) for conditions in reached]
        assert sum(fits) == (not all(value_of(guard, {"s": n}) for guard in guards))


SMALLEST = [
    ([Eq(Mod(s, 7), 0), s > 10], {s: 2}, {s: 14}),
    ([Eq(s * t, 36), s > t], {s: 2, t: 2}, {s: 9, t: 4}),
    ([s + t > 9], {s: 2, t: 3}, {s: 2, t: 8}),
    ([shape.FloorDiv(s, -2) < -3], {s: None}, {s: 7}),
    ([s < -2], {s: None}, {s: -3}),
    ([s > 3, s < 4], {s: 2}, None),
    ([s < 2], {s: 2}, None),
    ([shape.OpaqueUnaryFn_sqrt(shape.ToFloat(s)) > 2.5], {s: 2}, {s: 7}),
    ([Eq(shape.TruncToInt(shape.ToFloat(s) * 1.5), 18)], {s: 2}, {s: 12}),
    ([Ne(s, t), Ne(s, 2), Ne(t, 2)], {s: 2, t: 2}, {s: 3, t: 4}),
    ([], {s: 2, t: 5}, {s: 2, t: 5}),
    ([], {}, {}),
]


@pytest.mark.parametrize("constraints, lower, expected", SMALLEST, ids=str)
def test_smallest(constraints: list[Any], lower: dict[Any, int], expected: dict[Any, int] | None) -> None:
    assert smallest(constraints, lower, budget_seconds=20.0) == expected


@profile
@given(st.lists(st.sampled_from([Eq(Mod(s, 3), 1), s * t > 20, Ne(s, t), s < t, Eq(Mod(t, 4), 0), s + t < 15, t <= 9, shape.FloorDiv(t, s) > 1]), unique=True))
def test_smallest_is_what_trying_out_finds(constraints: list[Any]) -> None:
    """Smallest sum first, then the smallest s."""
    fitting = [(a, b) for a, b in itertools.product(range(2, 30), repeat=2) if all(value_of(c, {"s": a, "t": b}) for c in constraints)]
    best = min(fitting, key=lambda pair: (sum(pair), *pair), default=None)
    assert smallest(constraints, {s: 2, t: 2}, budget_seconds=20.0) == (best and {s: best[0], t: best[1]})


def test_a_search_that_takes_too_long_is_undecided() -> None:
    started = time.monotonic()
    with pytest.raises(Undecided):
        smallest([Eq(s**3 + t**3, u**3)], {s: 1, t: 1, u: 1}, budget_seconds=0.5)
    assert time.monotonic() - started < 1.5


def test_numbers_that_python_can_not_confirm_are_undecided() -> None:
    with pytest.raises(Undecided):
        smallest([sympy.Function("f")(s) > 3], {s: 2}, budget_seconds=0.3)
