"""typing's generic aliases are objects of Python, whose attributes a program can store to and delete."""

from __future__ import annotations

import typing
from typing import Any

import pytest
from agreement import tried

import framejit


def changed_arguments() -> Any:
    alias = typing.Union[str, int]
    before = alias.__args__
    alias.__args__ = [str, int]
    try:
        return alias.__args__, str | int == alias
    finally:
        alias.__args__ = before  # typing keeps it in a cache


def own_attribute() -> Any:
    alias = typing.List[int]
    alias.__foo__ = 3
    return alias.__foo__, alias.__args__


def past_setattr() -> Any:
    alias = typing.List[str]
    object.__setattr__(alias, "_other", "x")
    return object.__getattribute__(alias, "_other"), object.__getattribute__(alias, "__args__")


def deleted() -> Any:
    alias = typing.List[float]
    alias.__foo__ = 3
    del alias.__foo__
    return alias.__foo__


def of_the_origin() -> Any:
    typing.List[int].foo = 3


@pytest.mark.parametrize("program", [changed_arguments, own_attribute, past_setattr, deleted, of_the_origin], ids=lambda program: program.__name__)
def test_an_alias_is_changed(program):
    expected = tried(program)
    compiled = framejit.compile(program, backend="eager")
    assert tried(compiled) == expected
    assert tried(compiled) == expected


def test_what_is_read_of_an_alias_is_guarded():
    class Own(typing.Generic[typing.TypeVar("T")]):  # type: ignore[misc]
        pass

    alias: Any = Own[int]

    def read(given: Any) -> Any:
        return given.__args__, alias.__args__

    compiled = framejit.compile(read, backend="eager")
    assert compiled(alias) == ((int,), (int,))
    alias.__args__ = (str,)
    assert compiled(alias) == ((str,), (str,))
    del alias.__args__
    with pytest.raises(AttributeError):
        compiled(alias)


class SameAsAll(type):
    def __eq__(cls, other: object) -> bool:
        return True

    __hash__ = type.__hash__


class Same(metaclass=SameAsAll):
    pass


T = typing.TypeVar("T")
PAIRS: list[tuple[Any, Any]] = [
    (list[int], list[int]), (list[int], list[str]), (list[int], 3), (list[T], list[T]), (int | str, str | int), (int | None, typing.Optional[int]),
    (list[Same], list[int]), (list[list[Same]], list[list[int]]), (list[[1]], list[[1]]), (list[int], typing.List[int]),  # type: ignore[misc, valid-type]
]  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_equality(pair: tuple[Any, Any]) -> None:
    first, second = pair
    read = lambda: (first == second, first != second, second == first)
    assert framejit.compile(read, backend="eager")() == read()
