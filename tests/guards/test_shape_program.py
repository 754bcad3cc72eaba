"""guards/shape_program.py, guards/shape_vm.py and native/shape_vm.cpp: expressions over sizes, against sympy and Python, and against the C++ side."""

from __future__ import annotations

import math
from typing import Any

import pytest
import sympy
from guarding import frame_function, matched, slot
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.utils._sympy import functions as F

from framejit import _runtime
from framejit.guards.build import build
from framejit.guards.shape_program import UntranslatableError, compile_shapes, shapes_hold
from framejit.guards.shape_vm import LARGEST, OPERATIONS, SMALLEST, ShapeProgram
from framejit.guards.source import Root

N, M = sympy.symbols("n m", integer=True)
S, T = sympy.symbols("s t", integer=True, positive=True)
X, Y = sympy.symbols("x y", real=True)


def text_of(*expressions: Any) -> list[str]:
    program, symbols = compile_shapes(expressions)
    return [program.text(number, [symbol.name for symbol in symbols]) for number in program.demands]


class Both:
    """Expressions over two numbers as a program, which the C++ side runs as well."""

    def __init__(self, expressions: list[Any], first: Any = N, second: Any = M) -> None:
        self.arguments = first, second
        self.program, self.symbols = compile_shapes(expressions)
        root = Root()
        guard = shapes_hold([(e, None) for e in expressions], {first: slot(root, 0), second: slot(root, 1)}) if self.symbols else None
        self.built = None if guard is None else build([guard], [], [])

    def inputs(self, *values: int | float) -> list[int | float]:
        return [value for symbol in self.symbols for argument, value in zip(self.arguments, values, strict=True) if argument == symbol]

    def hold(self, *values: int | float) -> bool:
        expected = self.program.failing(self.inputs(*values)) is None
        if self.built is not None:
            assert (matched(self.built, *values) is not None) == expected, (self.program, values)
            assert (self.built.tree.failing(values, frame_function) is None) == expected
        return expected


def test_operations_are_those_of_the_native_side() -> None:
    assert list(OPERATIONS) and set(OPERATIONS) == set(_runtime.SHAPE_OPERATIONS)


@pytest.mark.parametrize("expressions,expected", [
    ([N >= 2, N >= 3, N > 1], ["n >= 3"]),
    ([N <= 9, N < 9, sympy.Ne(N, 12)], ["n <= 8"]),
    ([sympy.Eq(N, 4), N >= 2, N < 10, sympy.Ne(N, 5), sympy.Eq(F.PythonMod(N, 2), 0)], ["n == 4"]),
    ([sympy.Eq(N, 4), N >= 5], ["n == 4", "n >= 5"]),
    ([sympy.Eq(F.PythonMod(N, 4), 0), sympy.Eq(F.PythonMod(N, 8), 0), sympy.Eq(F.PythonMod(N, 2), 0)], ["n % 8 == 0"]),
    ([sympy.Eq(F.PythonMod(N, 4), 0), sympy.Eq(F.PythonMod(N, 6), 0)], ["n % 4 == 0", "n % 6 == 0"]),
    ([4 * N <= 4098, -2 * N < 7], ["n <= 1024", "n >= -3"]),
    ([sympy.Rational(1, 2) * N >= M], ["2 * m <= n"]),
    ([N + 3 > 5, 1 - N >= -9], ["n >= 3", "n <= 10"]),
    ([sympy.And(N > 1, M > 1), sympy.Not(sympy.Or(N > 7, sympy.Eq(M, 3)))], ["n >= 2", "m >= 2", "n <= 7", "m != 3"]),
    ([sympy.Eq(N, M), sympy.Eq(M, N)], ["n == m"]),
    ([S < 9, S >= 0], ["s >= 1", "s <= 8"]),
    ([sympy.Ne(N, 3)], ["n != 3"]),
    ([sympy.Or(N < 0, sympy.Eq(F.PythonMod(N + 1, 8), 0))], ["n < 0 or (n + 1) % 8 == 0"]),
    ([F.Max(N, M) < F.FloorDiv(M, 3)], ["max(m, n) < m // 3"]),
    ([X > 2.5], ["x > 2.5"]),
    ([F.TruncToInt(0.5 * F.ToFloat(N)) >= 3], ["int(0.5 * float(n)) >= 3"]),
    ([sympy.true], []),
    ([N <= 2**63, N >= -(2**63)], []),
    ([(N - M) ** 2 < 5], ["(n - m) * (n - m) <= 4"]),
])  # fmt: skip
def test_what_is_left_of_expressions(expressions: list[Any], expected: list[str]) -> None:
    assert sorted(text_of(*expressions)) == sorted(expected)


def test_demands_know_their_expressions() -> None:
    program, (n, m) = compile_shapes([N >= 1, sympy.Eq(N, M), N >= 5, F.FloorDiv(N, M) < 7])
    assert (n, m) == (N, M)
    assert [program.origins[number] for number in program.demands] == [1, 2, 3]
    assert [program.origins[program.failing(values) or 0] for values in ([5, 6], [4, 4])] == [1, 2]
    assert program.failing([5, 5]) is None


def test_symbols_that_no_expression_names() -> None:
    """Sympy has evaluated `s > 0` to true, because s says so of itself."""
    program, symbols = compile_shapes([], [S, N])
    assert symbols == (S,) and program.failing([0]) is not None and program.failing([1]) is None
    k = sympy.Symbol("k", integer=True, nonnegative=True)
    program, symbols = compile_shapes([], [k], counts={k})
    assert symbols == () and program.demands == ()


@pytest.mark.parametrize("expression", [
    F.OpaqueUnaryFn_sin(X) > 0.5, sympy.Rational(1, 3) * N * sympy.Rational(1, 2) + sympy.Function("f")(N) > 1, N + M, X + Y + 0.5 > 1.0,
    sympy.Eq(N**M, 3), N * 2**70 > M, sympy.Or(sympy.Piecewise((N, M > 1), (X, True)) > 1, N > 2), sympy.Piecewise((N, M > 1)) > 1,
    F.RoundDecimal(X, 2) > 1.5,
])  # fmt: skip
def test_what_is_not_known_is_refused(expression: Any) -> None:
    with pytest.raises(UntranslatableError):
        compile_shapes([expression])


def test_never() -> None:
    assert not Both([sympy.false, N > 1]).hold(5, 0)
    assert not Both([sympy.Eq(2 * N, 5, evaluate=False), N > 1]).hold(5, 0)
    with pytest.raises(ValueError, match="never"):
        shapes_hold([(sympy.false, None)], {})
    with pytest.raises(ValueError, match="no source is given for n"):
        shapes_hold([(N > 1, None)], {})


@pytest.mark.parametrize("n,m,expected", [
    (LARGEST, 1, False), (LARGEST - 1, 1, True), (SMALLEST, 0, True), (SMALLEST, -1, False), (0, 0, True),
])  # fmt: skip
def test_overflow_does_not_hold(n: int, m: int, expected: bool) -> None:
    assert Both([sympy.Ne(N + M, 3)]).hold(n, m) == expected


@pytest.mark.parametrize("expression", [
    sympy.Ne(F.FloorDiv(N, M), 3), sympy.Ne(F.PythonMod(N, M), 3), sympy.Ne(N * M, 3), sympy.Ne(N - M, 3), sympy.Ne(sympy.Abs(N), 3),
    sympy.Ne(F.LShift(N, M, evaluate=False), 3), sympy.Ne(F.RShift(N, M, evaluate=False), 3), sympy.Ne(F.PowByNatural(N, M), 3),
    sympy.Ne(N**5, 3), sympy.Ne(F.IntTrueDiv(N, M), 3.0), sympy.Ne(F.ToFloat(N), 3.0),
])  # fmt: skip
def test_corners_of_ints(expression: Any) -> None:
    corners = [SMALLEST, SMALLEST + 1, -(2**53) - 1, -65, -64, -63, -2, -1, 0, 1, 2, 3, 62, 63, 64, 65, 2**31, 2**53 + 1, LARGEST - 1, LARGEST]
    both = Both([expression])
    assert {both.hold(n, m) for n in corners for m in corners} == {True, False}


def test_floats() -> None:
    corners = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -2.5, 1e300, 2.0**63, -(2.0**63), math.inf, -math.inf, math.nan, 5e-324, 3.0]
    expressions = [
        X < Y, X <= Y, sympy.Eq(X, Y), sympy.Ne(X, Y), X + Y > 0.5, X * Y > 0.5, F.FloatTrueDiv(X, Y) > 0.5, F.FloatPow(X, Y) > 0.5,
        F.OpaqueUnaryFn_sqrt(X) > Y, sympy.Abs(X) >= Y, *(sympy.Ne(f(X), 3) for f in (F.TruncToInt, F.FloorToInt, F.CeilToInt, F.RoundToInt)),
    ]  # fmt: skip
    for expression in expressions:
        both = Both([expression], X, Y)
        assert {both.hold(x, y) for x in corners for y in corners} == {True, False}
    assert Both([X < Y, sympy.Eq(F.RoundToInt(X), 2)], X, Y).hold(2.5, math.inf)
    assert not Both([F.FloorToInt(X) > -3], X, Y).hold(math.nan, 0.0)


@pytest.mark.parametrize("n,x,expected", [(3, 3.0, True), (2**53, 2.0**53, True), (2**53 + 1, 2.0**53, False), (3, math.nan, False)])
def test_ints_are_compared_with_floats_exactly(n: int, x: float, expected: bool) -> None:
    assert Both([sympy.Eq(N, X)], N, X).hold(n, x) == expected


def ints(depth: int) -> Any:
    leaves = st.sampled_from([N, M]) | st.integers(-9, 9).map(sympy.Integer) | st.sampled_from([sympy.Integer(2**62), sympy.Integer(-(2**40))])
    if depth == 0:
        return leaves
    below = ints(depth - 1)
    two = st.tuples(below, below)
    divisors = below.filter(lambda e: e != 0)
    return st.one_of(
        leaves,
        two.map(lambda p: p[0] + p[1]),
        two.map(lambda p: p[0] - p[1]),
        two.map(lambda p: p[0] * p[1]),
        st.tuples(below, divisors).map(lambda p: F.FloorDiv(*p)),
        st.tuples(below, divisors).map(lambda p: F.PythonMod(*p)),
        two.map(lambda p: F.Max(*p)),
        two.map(lambda p: F.Min(*p)),
        below.map(sympy.Abs),
        below.map(lambda e: e**2),
        st.tuples(leaves, below, below).map(lambda p: F.Where(p[0] < p[1], p[1], p[2])),
        st.tuples(below, below).map(lambda p: F.BitwiseFn_bitwise_and(*p)),
    )


def truths(depth: int) -> Any:
    pair = st.tuples(st.sampled_from([sympy.Eq, sympy.Ne, sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge]), ints(2), ints(2) | st.integers(-99, 99).map(sympy.Integer))
    relations = pair.map(lambda p: p[0](p[1], p[2]))
    if depth == 0:
        return relations
    below = truths(depth - 1)
    return relations | st.tuples(below, below).map(lambda p: sympy.And(*p)) | st.tuples(below, below).map(lambda p: sympy.Or(*p)) | below.map(sympy.Not)


VALUES = st.integers(-20, 20) | st.integers(SMALLEST, LARGEST) | st.sampled_from([SMALLEST, LARGEST, 2**53 + 1, -(2**31)])


PAIRS = st.lists(st.tuples(VALUES, VALUES), min_size=4, max_size=16)


def in_python(expression: Any, values: dict[Any, int]) -> Any:
    """An expression's value with exact ints."""
    if isinstance(expression, sympy.Symbol):
        return values[expression]
    if isinstance(expression, sympy.Integer):
        return int(expression)
    if expression in (sympy.true, sympy.false):
        return bool(expression)
    args = [in_python(part, values) for part in expression.args]
    name = type(expression).__name__
    plain: dict[str, Any] = {
        "Add": lambda *a: sum(a), "Mul": lambda *a: math.prod(a), "Pow": lambda a, b: a**b, "FloorDiv": lambda a, b: a // b,
        "PythonMod": lambda a, b: a % b, "Mod": lambda a, b: a % b, "Max": lambda *a: max(a), "Min": lambda *a: min(a), "Abs": abs,
        "Where": lambda c, a, b: a if c else b, "BitwiseFn_bitwise_and": lambda a, b: a & b, "And": lambda *a: all(a), "Or": lambda *a: any(a),
        "Not": lambda a: not a, "Equality": lambda a, b: a == b, "Unequality": lambda a, b: a != b, "LessThan": lambda a, b: a <= b,
        "StrictLessThan": lambda a, b: a < b, "GreaterThan": lambda a, b: a >= b, "StrictGreaterThan": lambda a, b: a > b,
    }  # fmt: skip
    return plain[name](*args)


@st.composite
def expression_lists(draw: Any) -> list[Any]:
    try:
        return [draw(truths(1)) for _ in range(draw(st.integers(1, 4)))]
    except ZeroDivisionError:  # sympy evaluates what it can
        assume(False)
        raise


def is_small(program: ShapeProgram, values: list[int | float]) -> bool:
    """Return whether nothing in a program can exceed 64 bits or be undefined, in which case its answer must be Python's."""
    numbers = [abs(value) for value in (*values, *program.constants)]
    return max(numbers, default=0) < 1000 and not any(i.operation in ("floordiv", "mod") for i in program.instructions)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(expression_lists(), PAIRS)
def test_random_expressions(expressions: list[Any], pairs: list[tuple[int, int]]) -> None:
    try:
        both = Both(expressions)
    except UntranslatableError:
        assume(False)
    for n, m in pairs:
        found = both.hold(n, m)
        try:
            expected = all([in_python(expression, {N: n, M: m}) for expression in expressions])
        except ZeroDivisionError:
            expected = False
        if found:
            assert expected, text_of(*expressions)
        if expected and is_small(both.program, both.inputs(n, m)):
            assert found, text_of(*expressions)


def test_what_may_be_beyond_64_bits_is_not_left_out() -> None:
    """Of a square that is said not to be 2**124, it isn't known that it never is."""
    with pytest.raises(UntranslatableError):
        compile_shapes([sympy.Ne((N + 2**62) ** 2, 2**124, evaluate=False)])


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(expression_lists(), PAIRS)
def test_text_is_python_that_says_the_same(expressions: list[Any], pairs: list[tuple[int, int]]) -> None:
    try:
        program, symbols = compile_shapes(expressions)
    except UntranslatableError:
        assume(False)
    texts = [program.text(number, [symbol.name for symbol in symbols]) for number in program.demands]
    for n, m in pairs:
        failing = program.failing([{N: n, M: m}[symbol] for symbol in symbols])
        for number, text in zip(program.demands, texts, strict=True):
            if failing is None or number < failing:
                assert eval(text, {}, {"n": n, "m": m}), text


def test_program_is_data() -> None:
    program, _ = compile_shapes([N >= 2, N * M < 9])
    again, _ = compile_shapes([N >= 2, N * M < 9])
    assert program == again and hash(program) == hash(again)
    assert all(type(number) is int for number in program.native())


def test_a_malformed_program_is_refused() -> None:
    leaf = _runtime.LEAVES["shapes_hold"]
    add = _runtime.SHAPE_OPERATIONS["add"]
    nodes = [(_runtime.ACCESSORS["root"], 0, None), (_runtime.ACCESSORS["local"], 0, 0)]
    right = (1, 0, 3, 0, 1, 7, 1, add, 0, 1, 0)
    _runtime.GuardTree(nodes, [], [(leaf, (1,), right)], [])
    wrong = [right[:length] for length in range(len(right))]
    for place, number in [(0, 2), (0, 2**62), (1, 1), (2, 9), (3, -1), (4, 2**62), (6, 2), (7, 999), (8, 2), (9, -1), (10, 2**40)]:
        wrong.append((*right[:place], number, *right[place + 1 :]))
    for numbers in [*wrong, (*right, 0)]:
        with pytest.raises(ValueError):
            _runtime.GuardTree(nodes, [], [(leaf, (1,), numbers)], [])


def test_functions_of_torchs_own() -> None:
    """Conditions on torch's symbolic functions are written with Python's operators."""
    found = text_of(sympy.Eq(F.Mod(S * T, 8), 0), F.ModularIndexing(S, 2, 3) < 2, F.CeilDiv(S, 4) < 9)
    assert found[-3:] == ["s * t % 8 == 0", "s // 2 % 3 <= 1", "(s + 3) // 4 <= 8"]
