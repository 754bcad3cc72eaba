"""Errors about values of wrong types: texts and notes are those of the running Python, with the names of classes as it has them."""

from __future__ import annotations

import collections
import functools
import itertools
import math
import operator
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import agree_in_text

X: Any = type("X", (), {"__module__": "a.module"})
"""A class that supports nothing."""
x: Any = X()


class Keys:
    def keys(self) -> Any:
        return x


def called(*args: Any, **kwargs: Any) -> None:
    """A function that takes anything."""


def returning(method: str) -> Any:
    """An object whose special method returns an X."""
    return type("Returning", (), {"__module__": "a.module", method: lambda self, *args: x})()


def barring(method: str) -> Any:
    """An object whose class says that it hasn't the special method."""
    return type("Barring", (), {"__module__": "a.module", method: None, "__getitem__": called, "__len__": lambda self: 3})()


def said(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        return type(error).__name__, error.args, getattr(error, "__notes__", None)


def unpack() -> None:
    a, b = x


def enter() -> None:
    with x:
        pass


STARS: list[Callable[[], Any]] = [
    lambda: [*x], lambda: (*x,), lambda: {*x}, lambda: {**x}, lambda: called(*x), lambda: called(1, *x), lambda: called(**x), lambda: called(a=1, **x),
    lambda: len(*x), lambda: dict(**x), lambda: dict(x), lambda: dict([x]), lambda: dict(Keys()), lambda: {**Keys()}, lambda: called(**Keys()),
    lambda: {}.update(x), lambda: {}.__ior__(Keys()), lambda: called(*x, **x), lambda: called(**{1: 2}),
    lambda: functools.partial(called)(a=1, **{"a": 2}),  # noqa: PLE1132
]  # fmt: skip
OPERATORS: list[Callable[[], Any]] = [
    lambda: x[0], lambda: x(), lambda: x + 1, lambda: 1 + x, lambda: -x, lambda: ~x, lambda: abs(x), lambda: x < 1, lambda: 1 in x,
    lambda: x.a, lambda: x @ x,
    lambda: [1][x], lambda: (1,)[x], lambda: "a"[x], lambda: [1][x:], lambda: (1,)[::x], lambda: "a" * x, lambda: [1] * x, lambda: "a" + x, lambda: [1] + x,
    lambda: (1,) + x, lambda: x in "a", lambda: "%d" % x, lambda: {1} | x, lambda: {} | x, lambda: b"a" + x, lambda: int | x, lambda: x[int],
    unpack, enter, lambda: delattr(x, "a"), lambda: operator.delitem(x, 0), lambda: operator.setitem(x, 0, 1),
]  # fmt: skip
BUILTINS: list[Callable[[], Any]] = [
    lambda: list(x), lambda: tuple(x), lambda: set(x), lambda: iter(x), lambda: next(x), lambda: len(x), lambda: getattr(x, 1), lambda: int(x),
    lambda: float(x), lambda: complex(x), lambda: range(x), lambda: format(x, "d"), lambda: isinstance(1, x), lambda: issubclass(1, x), lambda: sum([x]),
    lambda: sum(x), lambda: max(x), lambda: min([x, x]), lambda: sorted([x, x]), lambda: reversed(x), lambda: enumerate(x), lambda: zip(x),
    lambda: map(called, x),
    lambda: round(x), lambda: pow(x, 1), lambda: divmod(x, 1), lambda: chr(x), lambda: ord(x), lambda: bin(x), lambda: bytes(x),
    lambda: bytes([x]), lambda: super(X, 1),
    lambda: super(1, x), lambda: X(1), lambda: object.__new__(x), lambda: X.__new__(int), lambda: type("A", (), x), lambda: type("A", (x,), {}),
    lambda: hash([]), lambda: any(x), lambda: all(x), lambda: filter(called, x), lambda: int("1", x), lambda: round(1.5, x), lambda: sum([1], x),
]  # fmt: skip
METHODS: list[Callable[[], Any]] = [
    lambda: "a".join([x]), lambda: "a".join(x), lambda: "a".replace(x, "b"), lambda: "a".encode(x), lambda: "a".split(x), lambda: "a".startswith(x),
    lambda: "a".center(x), lambda: "a".zfill(x), lambda: str.upper(x), lambda: list.append(x, 1), lambda: [1].extend(x), lambda: {1}.update(x),
    lambda: {1}.union(x), lambda: [1].index(x), lambda: [1].insert(x, 1), lambda: [1].pop(x), lambda: (1,).index(1, x), lambda: slice(x).indices(1),
    lambda: (1).to_bytes(x), lambda: ValueError().with_traceback(x), lambda: ValueError().add_note(x), lambda: setattr(ValueError(), "__cause__", x),
    lambda: setattr(x, "__class__", 1), lambda: setattr(x, "__dict__", x),
]  # fmt: skip
LIBRARIES: list[Callable[[], Any]] = [
    lambda: operator.index(x), lambda: operator.length_hint(x, x), lambda: math.floor(x), lambda: math.sqrt(x), lambda: math.gcd(x),
    lambda: itertools.chain(x),
    lambda: itertools.islice(x, 1), lambda: itertools.islice([1], x), lambda: itertools.repeat(1, x), lambda: functools.reduce(called, x),
    lambda: functools.partial(x), lambda: collections.deque(x), lambda: collections.deque([1], x), lambda: collections.deque([1])[x],
    lambda: collections.OrderedDict(x), lambda: collections.OrderedDict([x]), lambda: collections.Counter(x), lambda: collections.defaultdict(x),
    lambda: types.MappingProxyType(x), lambda: types.MethodType(x, 1), lambda: itertools.combinations(x, 2), lambda: itertools.combinations(x, -1),
    lambda: itertools.combinations_with_replacement(x, -1), lambda: itertools.permutations(x, -1), lambda: itertools.combinations([1], -1),
]  # fmt: skip
RESULTS: list[Callable[[], Any]] = [
    lambda: bool(returning("__bool__")), lambda: len(returning("__len__")), lambda: str(returning("__str__")), lambda: repr(returning("__repr__")),
    lambda: iter(returning("__iter__")), lambda: format(returning("__format__")), lambda: int(returning("__int__")), lambda: float(returning("__float__")),
    lambda: complex(returning("__complex__")), lambda: range(returning("__index__")), lambda: hash(returning("__hash__")),
    lambda: operator.length_hint(returning("__length_hint__")), lambda: list(returning("__iter__")), lambda: f"{returning('__str__')}",
    lambda: reversed(barring("__reversed__")), lambda: 1 in barring("__contains__"), lambda: hash(barring("__hash__")), lambda: iter(barring("__iter__")),
    lambda: len(barring("__len__")),
]  # fmt: skip


@pytest.mark.parametrize("cases", [STARS, OPERATORS, BUILTINS, METHODS, LIBRARIES, RESULTS], ids="stars operators builtins methods libraries results".split())
def test_errors_are_worded_as_in_eager(cases: list[Callable[[], Any]]) -> None:
    def program(t: torch.Tensor) -> Any:
        return t + 1, [said(case) for case in cases]

    agree_in_text(program, torch.ones(1))
