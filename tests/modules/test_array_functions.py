"""NumPy's functions in compiled functions: each with arrays of each type, beside NumPy."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np
import pytest
from array_calls import NAMES, NO_SPECIAL, calls_of, special, values

import framejit
from framejit.objects.arrayrules import COMPLEX, NEVER, TYPES

TOLERANCE = {"e": 4e-3, "f": 1e-5, "F": 1e-5, "d": 1e-12, "D": 1e-12}
"""How far apart results may be: some functions are computed in another order, or by other approximations."""


def same(expected: Any, got: Any, told: str) -> None:
    """Type, dtype, shape, layout and values."""
    assert type(expected) is type(got), f"{told}: {type(expected)} and {type(got)}"
    if isinstance(expected, str):
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
    """Whether a call of the function is compiled in one graph."""
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


@pytest.mark.parametrize("name", [name for name in NEVER if name in NAMES])
def test_where_values_would_be_others_numpy_runs(name):
    function, calls = calls_of(name)
    for code in NEVER[name]:
        assert not whole_graph(lambda a: calls[0](function, a), values(code)), code


@pytest.mark.parametrize(
    "program",
    [
        lambda a: np.median(a.astype("f2")), lambda a: np.percentile(a, [30, 40]), lambda a: np.cbrt(a), lambda a: np.modf(a), lambda a: np.fft.fft(a),
        lambda a: a[::-1][1:], lambda a: np.linalg.norm(a, 1), lambda a: np.linalg.norm(a, np.inf, axis=0), lambda a: np.pad(a, 1, "edge"),
        lambda a: np.clip(a, 2, 5, where=a > 3), lambda a: (np.clip(a, 2, 5, a), a), lambda a: (np.sum(a, 0, None, a[0]), a),
        lambda a: (np.concatenate([a[0], a[1]], 0, a.reshape(-1)[:8]), a), lambda a: np.sum(a, axis=0, out=np.zeros(4, np.float32)),
        lambda a: np.quantile(a, 0.5, method="nearest"), lambda a: np.where(a > 1), lambda a: np.add(a, 1, where=a > 100, out=a),
        lambda a: np.std(a, 0, None, None, 1), lambda a: np.reshape(a, (4, 3), order="F"), lambda a: np.take(a, 20, mode="clip"),
        lambda a: a[a > 1].max(), lambda a: np.nonzero(a), lambda a: np.unique(a), lambda a: a.ravel(order="F"), lambda a: np.add.reduce(a), lambda a: a.flags,
        lambda a: np.argsort(a), lambda a: np.sum(a, where=a > 1), lambda a: np.round(a.astype(int), -1), lambda a: a.astype("f4").astype("U3"),
        lambda a: operator.setitem(a, [0, 0], a[:2]),
    ],
)  # fmt: skip
def test_what_is_left_to_numpy(program):
    a = np.arange(12.0).reshape(3, 4)
    assert not whole_graph(program, a.copy())
    left, right = program(a.copy()), framejit.compile(program, backend="eager")(a.copy())
    assert str(left) == str(right) or "flags" in program.__code__.co_names
