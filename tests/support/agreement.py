"""Comparison of compiled and eager runs of a function in everything that a caller can observe."""

from __future__ import annotations

import copy
import dataclasses
import enum
import math
import re
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import framejit

ATOMS = (type(None), bool, int, float, complex, str, bytes, type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, enum.Enum,
         torch.dtype, torch.device, torch.layout, torch.memory_format, range, slice, type(...), np.generic)  # fmt: skip


class Comparison:
    """Structural equality of two values, including identity: objects that are shared within one value are shared within the other."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.keep: list[Any] = []

    def same(self, a: Any, b: Any, path: str = "result") -> None:
        assert type(a).__qualname__ == type(b).__qualname__, f"{path}: {type(a)} and {type(b)}"
        if isinstance(a, float):
            assert (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b), f"{path}: {a} and {b}"
            return
        if isinstance(a, types.FunctionType):
            assert a.__qualname__ == b.__qualname__, path
            return
        if isinstance(a, ATOMS):
            assert a == b or repr(a) == repr(b), f"{path}: {a!r} and {b!r}"  # numbers of a class that leaves `==` to others
            return
        if type(a) is tuple and all(isinstance(item, ATOMS) for item in a):
            assert len(a) == len(b), f"{path}: {a!r} and {b!r}"
            for left, right in zip(a, b):  # constants: it is an accident which of two equal tuples this is
                self.same(left, right, path)
            return
        if id(a) in self.seen:
            assert self.seen[id(a)] == id(b), f"{path}: shared in one run only"
            return
        self.seen[id(a)] = id(b)
        self.keep += (a, b)
        if isinstance(a, torch.Tensor):
            self.same_tensor(a, b, path)
        elif isinstance(a, np.ndarray):
            assert a.flags.writeable == b.flags.writeable, f"{path}: only one is read-only"
            np.testing.assert_array_equal(a, b, path, strict=True)
        elif isinstance(a, dict):
            assert list(map(repr, a)) == list(map(repr, b)), f"{path}: keys {list(a)} and {list(b)}"
            for (key, left), right in zip(a.items(), b.values(), strict=True):
                self.same(left, right, f"{path}[{key!r}]")
        elif isinstance(a, (list, tuple, deque)):
            assert len(a) == len(b), f"{path}: lengths {len(a)} and {len(b)}"
            for i, (left, right) in enumerate(zip(a, b, strict=True)):
                self.same(left, right, f"{path}[{i}]")
        elif isinstance(a, (set, frozenset)):
            assert sorted(map(repr, a)) == sorted(map(repr, b)), path
        elif isinstance(a, BaseException):
            assert a.args == b.args or list(map(repr, a.args)) == list(map(repr, b.args)), f"{path}: {a!r} and {b!r}"
        if hasattr(a, "__dict__") and not isinstance(a, (torch.Tensor, torch.nn.Module)):
            self.same(vars(a), vars(b), f"vars({path})")
        for member in (m for cls in type(a).__mro__ for m in vars(cls).values() if isinstance(m, types.MemberDescriptorType)):
            if dataclasses.is_dataclass(a) or type(a).__module__ not in ("builtins", "collections", "functools"):
                assert hasattr(a, member.__name__) == hasattr(b, member.__name__), f"{path}.{member.__name__}"
                if hasattr(a, member.__name__):
                    self.same(getattr(a, member.__name__), getattr(b, member.__name__), f"{path}.{member.__name__}")

    def same_tensor(self, a: torch.Tensor, b: torch.Tensor, path: str) -> None:
        for name in ("dtype", "device", "shape", "requires_grad", "is_leaf", "layout"):
            assert getattr(a, name) == getattr(b, name), f"{path}.{name}: {getattr(a, name)} and {getattr(b, name)}"
        assert a.stride() == b.stride(), f"{path}: strides {a.stride()} and {b.stride()}"
        torch.testing.assert_close(a.detach(), b.detach(), rtol=0, atol=0, equal_nan=True, msg=lambda text: f"{path}: {text}")


def close(found: Any, expected: Any, tolerance: float | None = 0.0, path: str = "result") -> None:
    """Assert equal structure, and tensors equal within `tolerance`, relative and absolute. None stands for torch.testing's tolerance for their dtype."""
    assert type(found) is type(expected), f"{path}: {type(found)} and {type(expected)}"
    if isinstance(expected, torch.Tensor):
        allowed = {"rtol": tolerance, "atol": tolerance, "equal_nan": True}
        torch.testing.assert_close(found, expected, **allowed, msg=lambda text: f"{path}: {text}")
    elif isinstance(expected, dict):
        assert list(found) == list(expected), f"{path}: keys {list(found)} and {list(expected)}"
        for key, value in expected.items():
            close(found[key], value, tolerance, f"{path}[{key!r}]")
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected), f"{path}: lengths {len(found)} and {len(expected)}"
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            close(a, b, tolerance, f"{path}[{i}]")
    else:
        assert found == expected, f"{path}: {found!r} and {expected!r}"


def outcome(fn: Callable[..., Any], args: Any, kwargs: Any) -> tuple[str, Any]:
    """Return ("returned", value) or ("raised", exception) for a call."""
    torch.manual_seed(0)
    try:
        return "returned", fn(*args, **kwargs)
    except Exception as error:
        return "raised", error


def agree(fn: Callable[..., Any], *args: Any, backend: Any = "eager", fullgraph: bool = True, calls: int = 2, **kwargs: Any) -> Any:
    """Run `fn` eagerly and compiled, several times, on copies of the arguments: results, exceptions and mutations must be the same.

    Returns the compiled function. With `fullgraph`, the compiled run must not have fallen back, unless eager raises as well.
    """
    compiled = framejit.compile(fn, backend=backend, fullgraph=fullgraph, isolate_recompiles=True)
    for _ in range(calls):
        left, right = copy.deepcopy((args, kwargs)), copy.deepcopy((args, kwargs))
        before = framejit.statistics()["fallbacks"]
        expected = outcome(fn, *left)
        got = outcome(compiled, *right)
        if "raised" in (expected[0], got[0]) and expected[0] != got[0]:
            raise AssertionError(f"eager {expected[0]} {expected[1]!r}, compiled {got[0]} {got[1]!r}") from (
                got[1] if got[0] == "raised" else None
            )
        comparison = Comparison()
        comparison.same((expected[1], left), (got[1], right))
        if fullgraph and expected[0] == "returned":
            assert framejit.statistics()["fallbacks"] == before, framejit.statistics()["reasons"][-1]
    return compiled


def agree_in_text(fn: Callable[..., Any], *args: Any, calls: int = 2) -> None:
    """Run a program eagerly and compiled, several times: the results or exceptions must be equal as text, with types and without addresses.

    Lists, dicts, sets and deques among its arguments are copied for each call.
    """

    def seen(run: Callable[..., Any]) -> str:
        given = [copy.copy(arg) if isinstance(arg, (list, dict, set, deque)) else arg for arg in args]
        kind, value = outcome(run, given, {})
        return f"{kind} {re.sub('0x[0-9a-f]+', '0x', repr(with_types(value)))}"

    expected = [seen(fn) for _ in range(calls)]
    compiled = framejit.compile(fn, backend="eager")
    got = [seen(compiled) for _ in range(calls)]
    assert got == expected, f"eager {expected}, compiled {got}"


def with_types(value: Any) -> Any:
    """Return a comparable form of a value: types and text, for each item of lists and tuples."""
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [with_types(item) for item in value]
    return type(value).__name__, value.tolist() if isinstance(value, torch.Tensor) else repr(value)


def tried(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return a call's result, or the name and text of its exception. Programs call this function, and it is compiled with them."""
    try:
        return function(*args, **kwargs)
    except BaseException as error:
        return type(error).__name__, str(error)


def raising(function: Callable[[], Any]) -> tuple[str, Any]:
    """Return ("returned", value), or the name of a raised exception's type with its arguments. Programs call this function while they are traced."""
    try:
        return "returned", function()
    except Exception as error:
        return type(error).__name__, error.args


def agree_over_calls(program: Callable[[Callable[..., Any]], list[Any]], stops: bool = False) -> None:
    """Compare `program(compile)` eager and compiled. It makes its own state, calls the functions that it compiles, and returns a list of results.

    `stops`: tracing is expected to stop somewhere. Otherwise everything must have been compiled.
    """

    def run(wrap: Callable[..., Any]) -> list[Any]:
        def wrapped(fn: Callable[..., Any]) -> Callable[..., Any]:
            made = wrap(fn)

            def called(*args: Any, **kwargs: Any) -> Any:
                kind, value = outcome(made, args, kwargs)
                return (kind, type(value).__name__, value.args) if kind == "raised" else value

            return called

        return program(wrapped)

    framejit.reset()
    expected = run(lambda fn: fn)
    before = framejit.statistics()["fallbacks"]
    got = run(lambda fn: framejit.compile(fn, backend="eager"))
    Comparison().same(expected, got)
    reasons = framejit.statistics()["reasons"][before:]
    assert bool(reasons) == stops, reasons
