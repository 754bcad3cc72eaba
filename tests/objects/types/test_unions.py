"""`|` on classes, generic aliases, typing's forms, type variables and None: made from outside and inside the trace, accepted or refused as eager does."""

from __future__ import annotations

import collections.abc
import typing
from typing import Any

import pytest
import torch

import framejit

x = torch.ones(2)
T = typing.TypeVar("T")
P = typing.ParamSpec("P")
Named = typing.NewType("Named", int)


class Meta(type):
    def __or__(cls, other: Any) -> Any:
        return "or", cls.__name__

    def __ror__(cls, other: Any) -> Any:
        return "ror", cls.__name__


class Refuses(type):
    def __or__(cls, other: Any) -> Any:
        return NotImplemented


class WithMeta(metaclass=Meta):
    pass


class Refusing(metaclass=Refuses):
    pass


class Plain:
    pass


VALUES: list[Any] = [
    int, None, list[int], collections.abc.Callable[[int], bool], typing.List[int], typing.Callable[[int], bool], typing.Optional[int],
    int | str, T, P, WithMeta, Refusing, Plain, "text", typing.Any, 1, typing.Literal[1], Named, ..., NotImplemented, type(None), typing.Generic,
    typing.List, ValueError, collections.abc.Sized, typing.Annotated[int, 3], (1, 2), torch.Tensor,
]  # fmt: skip


def joined(a: Any, b: Any) -> Any:
    try:
        return a | b
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("left", VALUES, ids=lambda value: f"{value!r:.30}")
def test_operands_from_outside(left):
    compiled = framejit.compile(joined, backend="eager")
    for right in VALUES:
        expected = joined(left, right)
        found = compiled(left, right)
        assert found == expected and type(found) is type(expected), right
        compiled.clear()


def made_inside(a):
    try:
        union: Any = collections.abc.Callable[[int], bool] | None
    except TypeError:
        return a - 100
    return a + 1, union, isinstance(None, int | None), isinstance(1.5, int | None)


def parametrised_inside(a):
    both = dict[str, int] | tuple[int, ...] | None
    return a * 2, both, typing.get_args(both)


def joined_with_a_constant(a):
    found = []
    for other in (1, "text", ()):
        try:
            found.append(int | other)
        except TypeError as error:
            found.append(str(error))
    return a * 2, found


def refused_in_place(a):
    kinds: Any = int
    kinds |= str
    try:
        kinds |= 3
    except TypeError as error:
        return a * 2, kinds, str(error)
    return a


@pytest.mark.parametrize("program", [made_inside, parametrised_inside, joined_with_a_constant, refused_in_place])
def test_unions_made_in_the_trace(program):
    compiled = framejit.compile(program, backend="eager")
    for _ in range(2):
        expected, found = program(x), compiled(x)
        assert torch.equal(found[0], expected[0]) and found[1:] == expected[1:]
