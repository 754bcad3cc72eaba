"""NumPy's functions in compiled functions: each with arrays of each type, beside NumPy."""

from __future__ import annotations

import operator
import warnings
from typing import Any
from unittest import mock

import numpy as np
import pytest
from array_calls import NAMES, NO_SPECIAL, by_numpy, calls_of, distinct, special, values

import framejit
from framejit.objects.arrays import numpyoperator
from framejit.objects.arrays.arrayrules import BY_NUMPY, COMPLEX, NEVER, TYPES

TOLERANCE = {"e": 4e-3, "f": 1e-5, "F": 1e-5, "d": 1e-12, "D": 1e-12}
"""How far apart results may be: some functions are computed in another order, or by other approximations."""


def same(expected: Any, got: Any, told: str) -> None:
    """Type, dtype, shape, layout and values."""
    assert type(expected) is type(got), f"{told}: {type(expected)} and {type(got)}"
    if expected is None or isinstance(expected, (str, bool)):
        assert expected == got, told
        return
    if isinstance(expected, (list, tuple)):
        assert len(expected) == len(got), told
        for left, right in zip(expected, got):
            same(left, right, told)
        return
    left, right = np.asarray(expected), np.asarray(got)
    assert left.dtype.char == right.dtype.char and left.shape == right.shape, f"{told}: {left.dtype}{left.shape} and {right.dtype}{right.shape}"
    strides = [(a, b) for a, b, size in zip(left.strides, right.strides, left.shape) if size > 1]
    assert all(a == b for a, b in strides) or not left.size, f"{told}: strides {strides}"
    tolerance = TOLERANCE.get(left.dtype.char, 0)
    assert np.allclose(left, right, rtol=tolerance, atol=tolerance, equal_nan=True), f"{told}: {left!r} and {right!r}"


def outcome(call: Any, function: Any, array: np.ndarray) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return call(function, array.copy())
        except Exception as error:
            return type(error).__name__


@pytest.mark.parametrize("name", NAMES)
def test_functions_give_what_numpy_gives(name):
    """Each call of a function, for each type, in one compiled program, which is split where a call is left to NumPy."""
    function, calls = calls_of(name)
    arrays = [values(code) for code in TYPES + COMPLEX]
    if name not in NO_SPECIAL:
        arrays += [special(code) for code in "fd"]
    if name == "mean":
        arrays = [array for array in arrays if array.dtype.char != "l"]  # sums of the largest numbers depend on their order

    def program(call: Any, array: np.ndarray) -> Any:
        return call(function, array)

    framejit.reset()
    for call in calls:
        compiled = framejit.compile(program, backend="eager")
        for array in arrays:
            same(outcome(call, function, array), outcome(lambda f, a, run=compiled, call=call: run(call, a), function, array), f"{name} of {array.dtype}")


def whole_graph(function: Any, *args: Any) -> bool:
    """Return whether a call of the function is compiled in one graph."""
    framejit.reset()
    try:
        framejit.compile(function, backend="eager", fullgraph=True)(*args)
    except framejit.Unsupported:
        return False
    return True


USUAL = (
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "maximum", "minimum", "less", "greater_equal", "equal", "sum", "mean", "std", "max",
    "min", "argmax", "any", "all", "cumsum", "where", "clip", "concatenate", "stack", "reshape", "transpose", "repeat", "tile", "sort", "take", "exp", "sqrt",
)  # fmt: skip


@pytest.mark.parametrize("name", USUAL)
def test_usual_functions_are_part_of_the_graph(name):
    function, calls = calls_of(name)
    for code in "ifd":
        assert whole_graph(lambda a: calls[0](function, a), values(code)), code


def calls_of_numpy(program: Any, *args: Any) -> list[str]:
    """The calls that the graph of a program, which is compiled in one, leaves to NumPy."""
    framejit.reset()
    with mock.patch.object(numpyoperator, "function_of", wraps=numpyoperator.function_of) as asked:
        framejit.compile(program, backend="eager", fullgraph=True)(*args)
    return [call.args[0] for call in asked.call_args_list]


@pytest.mark.parametrize("name", [name for name in NEVER if name in NAMES])
def test_where_values_would_be_others_numpy_computes(name):
    function, calls = calls_of(name)
    for code in NEVER[name]:
        if type(outcome(calls[0], function, values(code))) is not str:
            assert calls_of_numpy(lambda a: calls[0](function, a), values(code)), code


BY_NUMPY_PROGRAMS: list[Any] = [
    lambda a: np.median(a.astype("f2")), lambda a: np.percentile(a, [30, 40]), lambda a: np.cbrt(a), lambda a: np.modf(a), lambda a: np.fft.fft(a),
    lambda a: np.linalg.norm(a, 1), lambda a: np.linalg.norm(a, np.inf, axis=0), lambda a: np.pad(a, 1, "edge"),
    lambda a: np.sum(a, axis=0, out=np.zeros(4, np.float32)),
    lambda a: np.quantile(a, 0.5, method="nearest"), lambda a: np.where(a > 1), lambda a: (np.add(a, 1, where=a > 100, out=a), a),
    lambda a: np.std(a, 0, None, None, 1), lambda a: np.take(a, 20, mode="clip"), lambda a: a[a > 1].max(), lambda a: np.nonzero(a[0]), lambda a: np.unique(a),
    lambda a: np.add.reduce(a), lambda a: np.argsort(a), lambda a: np.sum(a, where=a > 1), lambda a: np.round(a.astype(int), -1),
    lambda a: (operator.setitem(a, [0, 0], a[:2]), a), lambda a: (operator.setitem(a, a > 3, a[a > 3] * 2), a), lambda a: np.linalg.svd(a),
    lambda a: np.unique(a % 3, return_inverse=True, return_counts=True), lambda a: np.histogram(a, bins=3), lambda a: np.bincount(a[0].astype(int)),
    lambda a: (np.add.at(a, ([0, 0], [1, 1]), 5), a), lambda a: np.add.reduceat(a[0], [0, 2]), lambda a: np.maximum.accumulate(a, axis=1),
    lambda a: divmod(a, 3), lambda a: np.linalg.lstsq(a, a[:, 0], rcond=None), lambda a: (np.fill_diagonal(a, 7), np.putmask(a, a > 9, -1), a),
    lambda a: np.allclose(a, a), lambda a: np.isin(a, [1, 3]), lambda a: a.astype("u2") * 2 + np.uint16(1), lambda a: (a.astype("u4") >> 1).sum(),
    lambda a: np.r_[a[0], 1.0], lambda a: np.full(3, a.max()), lambda a: np.searchsorted(a[0], [0.5, 2.0]), lambda a: np.interp(a[1], a[0], a[2]),
    lambda a: a[1].round(2).astype(np.uint8).sum(), lambda a: np.linalg.solve(a[:3, :3] + np.eye(3) * 9, np.ones(3)), lambda a: np.cov(a),
]


@pytest.mark.parametrize("index", range(len(BY_NUMPY_PROGRAMS)))
def test_what_numpy_computes_in_the_graph(index):
    program = BY_NUMPY_PROGRAMS[index]
    a = np.arange(12.0).reshape(3, 4)
    left, right = a.copy(), a.copy()
    assert calls_of_numpy(program, left)
    same(program(right), framejit.compile(program, backend="eager", fullgraph=True)(a.copy()), str(index))
    assert left.tolist() == right.tolist()


@pytest.mark.parametrize("name", sorted(BY_NUMPY))
def test_functions_that_numpy_computes(name):
    """With arrays of floats and of unsigned integers: what is compiled must not differ, be it in one graph or split."""
    function, calls = by_numpy(name)
    if name == "empty_like":  # what the new array holds is undefined
        calls = [lambda f, a, call=call: (call(f, a).shape, call(f, a).dtype.name) for call in calls]
    for call in calls:
        compiled = framejit.compile(lambda a, call=call: call(function, a), backend="eager")
        for array in (distinct("d"), distinct("H")):
            same(outcome(call, function, array), outcome(lambda f, a, run=compiled: run(a), function, array), f"{name} of {array.dtype}")


@pytest.mark.parametrize(
    "program",
    [
        lambda a: (np.concatenate([a[0], a[1]], 0, a.reshape(-1)[:8]), a), lambda a: np.clip(a, 2, 5, where=a > 3).shape, lambda a: a.flags.owndata,
        lambda a: (np.clip(a, 2, 5, a), a), lambda a: (np.sum(a, 0, None, a[0]), a),
        lambda a: a.astype("f4").astype("U3"), lambda a: np.delete(a, a[0] > 1, axis=1),
        lambda a: np.linalg.eigvals(a[:3, :3]),
        lambda a: np.piecewise(a, [a > 3], [lambda v: v * 2]), lambda a: np.rollaxis(a, 1), lambda a: np.sum(a.astype(object)),
        lambda a: np.histogram(a, bins="auto"), lambda a: np.polyfit(a[0], a[1], 1, full=True)[0].shape, lambda a: np.median(a, overwrite_input=True),
    ],
)  # fmt: skip
def test_what_is_left_to_numpy(program):
    a = np.arange(12.0).reshape(3, 4)
    assert not whole_graph(program, a.copy())
    left, right = program(a.copy()), framejit.compile(program, backend="eager")(a.copy())
    assert str(left) == str(right)


@pytest.mark.parametrize(
    "program",
    [
        lambda a: np.tile(a, a.argmax()), lambda a: np.diag(a, k=a.argmax()), lambda a: np.resize(a, (a.argmax(),)), lambda a: np.pad(a, a.argmax()),
        lambda a: np.repeat(a, a.astype(int)), lambda a: a[: a.argmax()].copy(), lambda a: a[:3].reshape(a.argmax(), -1), lambda a: a.reshape(a.argmax() + 3),
        lambda a: np.linspace(0, 1, a.argmax()), lambda a: np.fft.rfft(a, a.argmax()), lambda a: np.histogram(a, a.argmax()), lambda a: np.delete(a, a > 1),
    ],
)  # fmt: skip
def test_numbers_that_decide_about_the_form_of_a_result(program):
    a = np.array([0.0, 1.0, 2.0, 3.0, 0.5, 0.0])
    framejit.reset()
    same(program(a.copy()), framejit.compile(program, backend="eager")(a.copy()), "form")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_numpy_raises_for_its_data_reaches_the_handler(backend):
    def program(a):
        try:
            return np.linalg.inv(a)
        except np.linalg.LinAlgError as error:
            return str(error)

    framejit.reset()
    compiled = framejit.compile(program, backend=backend)
    for array in (np.eye(3) * 2, np.zeros((3, 3)), np.eye(3)):
        same(program(array), compiled(array), backend)


def test_numpy_is_asked_for_sizes_that_vary():
    """Functions that keep a shape are compiled for all sizes, and what depends on data has any."""
    program = lambda a: (np.argsort(a), np.unique(a.round(), return_counts=True), np.cbrt(a), np.percentile(a, [10, 90]), np.where(a > 0)[0])
    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for size in (5, 7, 9, 20):
        array = np.random.default_rng(size).standard_normal(size)
        same(program(array), compiled(array), str(size))
    assert framejit.statistics()["graphs"] == 2
