"""The door to torch: how operations are named, what they do with arguments that are no node's, functions that a program has replaced."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

import framejit
from framejit.objects.tensors.torchfunctions import operation_of


class Recorder(TorchFunctionMode):
    """Notes the functions that torch gives to `__torch_function__`."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


OPERATIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "x + 1": lambda x: x + 1, "1 + x": lambda x: 1 + x, "1 - x": lambda x: 1 - x, "1 / x": lambda x: 1 / x, "2 ** x": lambda x: 2**x,
    "x ** 2": lambda x: x**2, "x @ x": lambda x: x @ x, "x // 2": lambda x: x // 2, "-x": lambda x: -x, "+x": lambda x: +x,
    "~": lambda x: ~x.int(), "x < 1": lambda x: x < 1, "1 < x": lambda x: 1 < x, "x[0]": lambda x: x[0], "x[0] = 1": lambda x: operator.setitem(x, 0, 1),
    "x += 1": lambda x: operator.iadd(x, 1), "x **= 2": lambda x: operator.ipow(x, 2), "x @= x": lambda x: operator.imatmul(x, x),
    "x.add(x)": lambda x: x.add(x), "x.split(1)": lambda x: x.split(1), "x.T": lambda x: x.T, "x.shape": lambda x: x.shape, "x.grad": lambda x: x.grad,
    "x.grad = None": lambda x: setattr(x, "grad", None), "x.data = x": lambda x: setattr(x, "data", x), "len(x)": len, "iter(x)": list,
    "torch.add": lambda x: torch.add(x, 1), "torch.stack": lambda x: torch.stack([x, x]), "relu": F.relu, "einsum": lambda x: torch.einsum("ij->i", x),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_are_named_as_overrides_are_given_them(name: str) -> None:
    with Recorder() as recorder:
        OPERATIONS[name](torch.ones(3, 3))
    assert recorder.seen
    assert [function for function in recorder.seen if operation_of(function) is None] == []


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_do_what_they_do_in_eager(name: str) -> None:
    def program(x):
        y = x * 1
        return OPERATIONS[name](y), y

    if name in ("x.data = x", "x.grad = None"):  # of what the program has made itself
        program = OPERATIONS[name]
    x = torch.randn(3, 3)
    found, expected = framejit.compile(program, backend="eager", fullgraph=True)(x), program(x)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("number", [np.int64(1), np.float32(0.5), np.float64(2)])
def test_numbers_of_numpy(number: Any) -> None:
    def program(x):
        index = int(number)
        y = x + number, number - x, x == number, x.clamp(min=number), F.pad(x, (np.int64(1), np.int64(0))), x.view((np.int64(4), -1))
        return *y, x[np.int64(index) :], x[np.int64(index), : np.int32(1)], x.sum(np.int64(0))

    x = torch.arange(8.0).reshape(4, 2)
    torch.testing.assert_close(framejit.compile(program, backend="eager", fullgraph=True)(x), program(x))


class Overrides:
    """No tensor, but an argument for which torch asks its class."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> str:
        return func.__name__


@pytest.mark.parametrize("program", [
    lambda x, o: torch.add(x, o), lambda x, o: x.add(o), lambda x, o: F.relu(o), lambda x, o: torch.stack([x, o]),
    lambda x, o: x.sum(dim=o), lambda x, o: x + o,
])  # fmt: skip
def test_values_that_override_are_asked_where_torch_takes_them(program: Callable[..., Any]) -> None:
    x, other = torch.ones(2), Overrides()
    try:
        expected = program(x, other)
    except TypeError as error:
        with pytest.raises(TypeError, match=str(error).partition("(")[0]):
            framejit.compile(program, backend="eager")(x, other)
    else:
        assert framejit.compile(program, backend="eager")(x, other) == expected
        assert framejit.explain(program)(x, other).breaks == []


@pytest.mark.parametrize("holder, name, call", [
    (torch.Tensor, "add", lambda own, x: own(x, 1)), (torch.Tensor, "__add__", lambda own, x: own(x, 1)), (torch.Tensor, "__rsub__", lambda own, x: own(x, 1)),
    (torch.Tensor, "unflatten", lambda own, x: own(x, 0, (3, 1))), (F, "relu", lambda own, x: own(x)),
])  # fmt: skip
def test_torchs_own_function_that_is_replaced(holder: Any, name: str, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A replacement that calls torch's function, whose name and module it goes by."""
    own = getattr(holder, name)
    ran = []

    def program(x):
        return call(getattr(holder, name), x) * 2

    x = torch.randn(3)
    expected = program(x)
    assert torch.equal(framejit.compile(program, backend="eager")(x), expected)

    @functools.wraps(own)
    def another(*args: Any, **kwargs: Any) -> Any:
        ran.append(1)
        return own(*args, **kwargs)

    monkeypatch.setattr(holder, name, another)
    compiled = framejit.compile(program, backend="eager")
    for count in (1, 2):
        assert torch.equal(compiled(x), expected)
        assert len(ran) == count


@pytest.mark.only_eager("AOTAutograd's graphs round otherwise in the last bit")
@pytest.mark.parametrize("name", ["__rtruediv__", "__rdiv__", "__rsub__", "__rpow__", "__rmod__", "__rfloordiv__", "__rmatmul__"])
def test_reflected_methods_called_with_two_tensors(name: str) -> None:
    """To the last bit: `x.__rdiv__(y)` is computed as `x.reciprocal() * y`, and not as `y / x`."""
    x, y = torch.rand(64, 64) + 0.5, torch.rand(64, 64)
    program = getattr(torch.Tensor, name)
    assert torch.equal(framejit.compile(lambda x, y: program(x, y), backend="eager", fullgraph=True)(x, y), program(x, y))
