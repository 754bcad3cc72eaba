"""Helpers for the tests of guards: sources, calls, strange values, and the comparison of a tree with its reference."""

from __future__ import annotations

import types
import weakref
from collections import OrderedDict, deque
from functools import lru_cache, partial
from typing import Any

import torch

from framejit.guards.build import BuiltGuards, build, check_all
from framejit.guards.kinds import Guard
from framejit.guards.source import (
    MISSING,
    Call,
    Local,
    Root,
    Slot,
    Source,
    UserLine,
)

HERE = UserLine("model.py", 7, "forward")


def frame_function() -> None:
    """A function that stands for the function of the frame whose arguments are guarded."""


def slot(root: Root, index: int = 0) -> Source:
    return root.child(Local, Slot(index, f"x{index}"))


def call_of(*values: Any) -> Call:
    return Call(values, frame_function)


def matched(built: BuiltGuards, *values: Any) -> list[Any] | None:
    return built.tree.match(values, frame_function)


def agrees(built: BuiltGuards, *values: Any) -> bool:
    """Return whether the tree matches. Assert, several times, that the reference gives the same answer and names the same guard."""
    expected = check_all(built.guards, call_of(*values))
    number = None if expected is None else built.guards.index(expected)
    for _ in range(2):
        assert (matched(built, *values) is not None) == (expected is None), (expected, values)
        assert built.tree.failing(values, frame_function) == number, (expected, values)
        assert (matched(built, *values) is not None) == (expected is None), (expected, values)
    return expected is None


def one(kind: type[Guard], *payload: Any) -> BuiltGuards:
    """Return a tree of one guard, on the first argument."""
    return build([kind(slot(Root()), HERE, *payload)], [], [])


def kinds_of_guards(base: type[Guard] = Guard) -> dict[str, type[Guard]]:
    """Return all kinds of guards, by the names of their leaves. A kind that has the leaf of its base isn't among them."""
    found: dict[str, type[Guard]] = {}
    for kind in base.__subclasses__():
        found |= kinds_of_guards(kind)
    return {**found, base.leaf: base} if base.leaf else found


class LyingList(list):  # type: ignore[type-arg]
    def __len__(self) -> int:
        raise AssertionError("the user's Python ran")


class LyingDict(dict):  # type: ignore[type-arg]
    __len__ = __iter__ = __contains__ = __getitem__ = keys = LyingList.__len__  # type: ignore[assignment]


class WithSlots:
    __slots__ = ("full", "empty")

    def __init__(self) -> None:
        self.full = [1]


class Plain:
    attribute = [1]

    def __init__(self) -> None:
        self.here = [1]

    def method(self) -> None: ...

    @staticmethod
    def static() -> None: ...

    @classmethod
    def of_class(cls) -> None: ...

    @property
    def prop(self) -> int:
        return 1


class Key:
    """A key that is equal only to itself."""


def closure(value: Any, empty: bool = False) -> Any:
    captured = value

    def inner(a: Any = value, *, b: Any = value) -> Any:
        return captured

    if empty:
        del captured
    return inner


def with_attributes() -> None: ...


with_attributes.note = 1  # type: ignore[attr-defined]


FULL = WithSlots.__dict__["full"]
EMPTY = WithSlots.__dict__["empty"]
CACHING = lru_cache(lambda *args, **kwargs: [args])
UNLIMITED = lru_cache(None, typed=True)(lambda *args, **kwargs: [args])
for cached in (CACHING, UNLIMITED):
    cached(1), cached("a", [1][0]), cached(WithSlots, b=2.0), cached(True)
STRANGE = [
    {"a": 1}.keys(), {"a": 1}.values(), OrderedDict(a=1).items(),
    iter(OrderedDict(a=1, b=2)), iter(OrderedDict({Key(): 1})), reversed(OrderedDict(a=1, b=2).items()),
    None, 3, "text", [1, 2], (1, [2]), {}, {"a": [1]}, {1: "one", "a": 2, Key(): 3}, {True: 1}, OrderedDict(a=1, b=2), {Key(): [1]},
    deque([[1], 2]), deque(), WithSlots(), Plain(), Plain, Plain().method, int, type, len, frame_function, closure([1]),
    closure([1], empty=True), with_attributes, types.CellType(), types.CellType([1]), slice(1, [2]), partial(len, 3), torch.ones(2),
    torch.nn.Linear(2, 2), types, Exception(1),
    *(Plain.__dict__[name] for name in ("static", "of_class", "prop")), property(), LyingList([1]), LyingDict(a=1), torch.Size([1, 2]),
    weakref.ref(Plain), weakref.ref(Plain()), weakref.proxy(Plain), iter([[1], 2]), iter(()),
    iter({1: 2, 3: 4}.items()), iter(range(3)), reversed((1, 2)), enumerate([1], 4), zip([1], "ab", strict=True), CACHING, UNLIMITED,
    lru_cache(len), {3, "c"}, frozenset([Plain]), MISSING,
]  # fmt: skip
