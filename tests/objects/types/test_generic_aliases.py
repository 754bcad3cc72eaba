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
