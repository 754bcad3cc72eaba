"""The methods of descriptors in C, called by name on values of all kinds, and inspect.getattr_static, which calls them."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

import pytest
from agreement import agree, tried

import framejit


class Plain:
    x = 1

    def __init__(self) -> None:
        self.y = 2


class Slots:
    __slots__ = ("p", "q")

    def __init__(self) -> None:
        self.p = 4


class OtherName(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        return "other"


class Renamed(metaclass=OtherName):
    pass


class HasY(typing.Protocol):
    y: int


plain, slots = Plain(), Slots()
members: dict[str, Any] = vars(Slots)  # type: ignore[assignment]
fields: dict[str, Any] = vars(type)  # type: ignore[assignment]


def set_and_deleted() -> Any:
    made = Slots()
    members["q"].__set__(made, 5)
    members["p"].__delete__(made)
    return made.q, hasattr(made, "p")


def of_a_class_made_here() -> Any:
    class Made(Plain):
        k = 1

    return inspect.getattr_static(Made, "k"), inspect.getattr_static(Made(), "y"), fields["__name__"].__get__(Made)


WHOLE: list[Callable[[], Any]] = [
    set_and_deleted,
    of_a_class_made_here,
    lambda: [inspect.getattr_static(plain, name, None) for name in ("x", "y", "z")],
    lambda: inspect.getattr_static(Plain, "x"),
    lambda: inspect.getattr_static(slots, "p") is members["p"],
    lambda: (members["p"].__get__(slots), members["p"].__get__(slots, Slots), members["p"].__get__(None, Slots) is members["p"]),
    lambda: fields["__mro__"].__get__(Plain),
    lambda: fields["__dict__"].__get__(Plain)["x"],
    lambda: (fields["__name__"].__get__(Plain), fields["__module__"].__get__(Plain, 3)),
    lambda: vars(Plain)["__dict__"].__get__(plain),
]
OTHERS: list[Callable[[], Any]] = [
    lambda: fields["__name__"].__get__(Renamed),
    lambda: fields["__mro__"].__get__(plain),
    lambda: fields["__dict__"].__get__(plain),
    lambda: vars(Plain)["__dict__"].__get__(3),
    lambda: members["p"].__get__(plain),
    lambda: members["q"].__get__(slots),
    lambda: members["p"].__get__(None, None),
    lambda: vars(int)["real"].__get__("a"),
    lambda: types.FunctionType.__dict__["__code__"].__get__(3),
    lambda: fields["__abstractmethods__"].__get__(Plain),
    lambda: fields["__name__"].__get__(),
]


@pytest.mark.parametrize("function", WHOLE)
def test_in_one_piece(function):
    assert framejit.compile(function, backend="eager", fullgraph=True)() == function()


@pytest.mark.parametrize("function", OTHERS)
def test_what_is_not_in_one_piece(function):
    assert tried(framejit.compile(function, backend="eager")) == tried(function)


def test_static_attributes_that_change():
    class Changing:
        x = 1

    compiled = framejit.compile(lambda obj: inspect.getattr_static(obj, "x"), backend="eager")
    obj = Changing()
    assert compiled(obj) == 1
    obj.x = 2
    assert compiled(obj) == 2
    del obj.x
    Changing.x = 3
    assert compiled(obj) == 3


def test_members_of_a_protocol():
    checked = typing.runtime_checkable(HasY)
    compiled = framejit.compile(lambda obj: isinstance(obj, checked), backend="eager")
    obj = Plain()
    assert compiled(obj) and not compiled(slots)
    del obj.y
    assert not compiled(obj)


def test_whether_descriptors_are_abstract():
    class Abstract:
        __isabstractmethod__ = True

    outside = property(Abstract())

    def program():
        def marked(self):
            return 1

        marked.__isabstractmethod__ = True
        found = [property(marked), property(len, marked), property(len), property(), classmethod(marked), staticmethod(marked), staticmethod(len)]
        return [descriptor.__isabstractmethod__ for descriptor in [*found, outside]]

    agree(program)
