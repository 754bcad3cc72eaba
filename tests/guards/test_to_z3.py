"""z3's terms of shape expressions agree with what Python computes."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
import z3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shape_terms import CONTEXT, OF_FLOATS, OF_INTEGERS, OF_NONNEGATIVE, Exact, Possible, computed, disagreements, grid, s, t, x, y
from torch.utils._sympy import functions as shape

from framejit.guards import to_z3
from framejit.guards.shape_values import NoPythonValue, value_of
from framejit.guards.to_z3 import Translation

profile = settings(max_examples=150, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", OF_INTEGERS)
def test_integers_of_every_sign(name: str) -> None:
    assert not disagreements(*OF_INTEGERS[name], grid())


@pytest.mark.parametrize("name", OF_NONNEGATIVE)
def test_integers_that_are_not_negative(name: str) -> None:
    assert not disagreements(*OF_NONNEGATIVE[name], grid(least=0))


@pytest.mark.parametrize("name", OF_FLOATS)
def test_what_python_computes_is_possible(name: str) -> None:
    expression, python = OF_FLOATS[name]
    possible = Possible(expression)
    for a, b in grid(-4, 4):
        expected = computed(python, a, b)
        assert computed(lambda a, b: value_of(expression, {"s": a, "t": b}), a, b) == expected
        assert possible.is_possible({"s": a, "t": b}, expected), (a, b)


@pytest.mark.parametrize("name", ["truncated", "rounded down", "rounded up", "rounded", "to float", "negated product"])
def test_nothing_else_is_possible_where_it_matters(name: str) -> None:
    expression, python = OF_FLOATS[name]
    possible = Possible(expression)
    for a, b in [(7, 2), (-7, 2), (7, -2), (-9, 3), (6, 3), (5, 1)]:
        assert not possible.is_possible({"s": a, "t": b}, python(a, b) + 1), (a, b)
        assert not possible.is_possible({"s": a, "t": b}, python(a, b) - 1), (a, b)


def test_a_wrong_floor_division_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """z3's own division of Ints rounds up for negative divisors."""
    monkeypatch.setattr(to_z3, "floor_division", lambda a, b: a / b)
    assert disagreements(*OF_INTEGERS["floor division"], grid())
    assert disagreements(*OF_INTEGERS["floor division by -3"], grid())


def test_a_wrong_modulo_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(to_z3, "modulo", lambda a, b: a % b)
    assert disagreements(*OF_INTEGERS["modulo"], grid())


def expressions() -> st.SearchStrategy[Any]:
    """Random expressions over s and t of operations that are translated exactly."""
    leaves = st.one_of(st.sampled_from([s, t]), st.integers(-9, 9).map(sympy.Integer))

    def larger(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        def made(function: Any) -> st.SearchStrategy[Any]:
            return st.tuples(parts, parts).map(lambda pair: attempt(function, *pair))

        binary = (lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - b, shape.FloorDiv, shape.PythonMod, shape.Max, shape.Min)
        chosen = st.tuples(parts, parts, parts).map(lambda three: attempt(shape.Where, three[0] < three[1], three[1], three[2]))
        masked = st.tuples(parts, st.integers(-20, 20)).map(lambda pair: attempt(shape.BitwiseFn_bitwise_and, *map(sympy.sympify, pair)))
        return st.one_of(*map(made, binary), chosen, masked, parts.map(sympy.Abs))

    return st.recursive(leaves, larger, max_leaves=8)


def attempt(function: Any, *args: Any) -> Any:
    """Return the expression that sympy makes; one of the arguments where sympy raises, for instance because it sees a division by zero."""
    try:
        return function(*args)
    except (ArithmeticError, ValueError, AssertionError):
        return args[0] if not isinstance(args[0], sympy.logic.boolalg.Boolean) else args[1]


@profile
@given(expressions(), st.integers(-30, 30), st.integers(-30, 30))
def test_random_expressions(expression: Any, a: int, b: int) -> None:
    assert Exact(expression)(s=a, t=b) == computed(lambda: value_of(expression, {"s": a, "t": b}))


@profile
@given(expressions(), expressions(), st.sampled_from([sympy.Eq, sympy.Ne, sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge]), st.integers(-9, 9), st.integers(-9, 9))
def test_random_conditions(left: Any, right: Any, relation: Any, a: int, b: int) -> None:
    """A condition that Python can't compute is neither true nor false."""
    condition = relation(left, right, evaluate=False)
    expected = computed(lambda: value_of(condition, {"s": a, "t": b}))
    for answer in (True, False):
        assert holds(condition, answer, s=a, t=b) == (expected is answer)


def holds(condition: Any, answer: bool, **values: int) -> bool:
    """Return whether z3 proves that a condition can be computed and equals `answer`."""
    translation = Translation(CONTEXT)
    truth = translation.truth(condition, answer)
    pairs = [(translation.symbols[name].value, translation.integer(value)) for name, value in values.items() if name in translation.symbols]
    return z3.is_true(z3.simplify(z3.substitute(truth, *pairs)))


@pytest.mark.parametrize(
    "condition, python",
    [
        (sympy.Or(s > 1, t > 1), lambda s, t: s > 1 or t > 1),
        (sympy.And(s > 1, sympy.Ne(t, 1)), lambda s, t: s > 1 and t != 1),
        (sympy.Not(sympy.And(s > 1, t > 1), evaluate=False), lambda s, t: not (s > 1 and t > 1)),
        (sympy.Xor(s > 1, t > 1), lambda s, t: (s > 1) != (t > 1)),
        (sympy.Implies(s > 1, t > 1), lambda s, t: s <= 1 or t > 1),
        (sympy.ITE(s > 1, t > 1, t < 0), lambda s, t: t > 1 if s > 1 else t < 0),
        (sympy.Eq(s > 1, t > 1, evaluate=False), lambda s, t: (s > 1) == (t > 1)),
        (sympy.Ne(s > 1, t > 1, evaluate=False), lambda s, t: (s > 1) != (t > 1)),
        (sympy.Gt(shape.BitwiseFn_bitwise_or(s > 1, 2), t), lambda s, t: (s > 1) | 2 > t),
        (sympy.true, lambda s, t: True),
    ],
    ids=lambda value: "" if callable(value) else str(value),
)
def test_conditions_of_conditions(condition: Any, python: Any) -> None:
    for a, b in grid(-3, 4):
        assert holds(condition, True, s=a, t=b) is python(a, b)
        assert holds(condition, False, s=a, t=b) is not python(a, b)


def test_a_division_by_zero_is_only_an_error_where_it_is_computed() -> None:
    condition = sympy.Or(sympy.Eq(t, 0), sympy.Eq(shape.FloorDiv(s, t), 2))
    assert holds(condition, True, s=5, t=0)
    assert not holds(condition, False, s=5, t=0)
    assert holds(shape.Where(sympy.Eq(t, 0), 1, shape.FloorDiv(s, t)) > 0, True, s=5, t=0)


def test_python_and_z3_say_which_functions_they_do_not_know() -> None:
    unknown = sympy.Function("ceil_log2")(s)
    translation = Translation(CONTEXT)
    translation.truth(unknown > 1)
    assert translation.unmodelled == {"ceil_log2"}
    with pytest.raises(NoPythonValue, match="ceil_log2"):
        value_of(unknown > 1, {"s": 4})


@pytest.mark.parametrize("expression", [x + y + 1.5, x * y * 1.5, shape.Max(x, y), x**2, shape.FloorDiv(x, y), shape.PythonMod(x, y)], ids=str)
def test_python_does_not_say_what_sympy_leaves_open(expression: Any) -> None:
    with pytest.raises(NoPythonValue):
        value_of(expression, {"x": 1.0, "y": float("nan")})


def test_a_product_of_floats_that_none_is_equal_to_is_infinite() -> None:
    product = sympy.Float(2.0**53) * sympy.Float(1e300)
    assert value_of(product, {}) == float("inf")
    terms = Translation(CONTEXT)
    assert z3.is_true(z3.simplify(terms.truth(sympy.StrictGreaterThan(product, sympy.Float(1e308), evaluate=False))))


def test_an_integer_is_an_int64() -> None:
    possible = Possible(s)
    assert possible.is_possible({}, 2**63 - 1) and possible.is_possible({}, -(2**63))
    assert not possible.is_possible({}, 2**63) and not possible.is_possible({}, -(2**63) - 1)


def test_what_has_no_name_of_its_own_is_not_mixed_up() -> None:
    translation = Translation(CONTEXT)
    a, b = sympy.Dummy("n", integer=True), sympy.Dummy("n", integer=True)
    solver = z3.Solver(ctx=CONTEXT)
    assert solver.check(translation.truth(sympy.Eq(a, 1)), translation.truth(sympy.Eq(b, 2))) == z3.sat
    assert solver.check(translation.truth(sympy.Eq(a, 1)), translation.truth(sympy.Eq(a, 2))) == z3.unsat


def test_a_name_stands_for_one_number() -> None:
    with pytest.raises(ValueError, match="s stands for an integer and for a float"):
        Translation(CONTEXT).truth(sympy.Gt(sympy.Symbol("s", real=True), s))
