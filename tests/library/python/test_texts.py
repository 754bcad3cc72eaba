"""repr() and format() of objects whose texts C code makes: they show names, addresses, or the text that a subclass has."""

from __future__ import annotations

import collections
import math
import types
from typing import Any

import pytest
import torch

import framejit


class Plain:
    def method(self) -> None:
        pass


class Shown(Plain):
    def __repr__(self) -> str:
        return "shown"


class Text(str):
    def __str__(self) -> str:
        return "the text"


class Same(str):
    pass


class Number(int):
    def __repr__(self) -> str:
        return "the number"


def function() -> None:
    pass


PLAIN, MARK = Plain(), object()
X = torch.ones(2)


def agrees(program: Any, *args: Any) -> None:
    framejit.reset()
    assert repr(framejit.compile(program, backend="eager", fullgraph=True)(X, *args)) == repr(program(X, *args))


def test_texts_of_functions_methods_modules_and_proxies() -> None:
    def program(x: torch.Tensor) -> Any:
        made = Shown()
        proxy = types.MappingProxyType({"a": (1, made)})
        return x + 1, f"{function} {Plain.method!r}", repr(made.method), repr(PLAIN.method), str(math), repr(collections), repr(proxy)

    agrees(program)


def test_default_texts_of_objects_from_outside_have_their_addresses() -> None:
    def program(x: torch.Tensor, value: Any) -> Any:
        return x + 1, repr(value), f"{value} {MARK}", str([value])

    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for value in (PLAIN, Plain(), PLAIN, object(), function):
        assert repr(compiled(X, value)) == repr(program(X, value))


def test_texts_follow_the_names_that_they_show() -> None:
    def program(x: torch.Tensor) -> Any:
        return x + 1, repr(target), repr(PLAIN), repr(list[Plain] | None), repr(dict[str, Plain])

    def target() -> None:
        pass

    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    assert repr(compiled(X)) == repr(program(X))
    target.__qualname__ = "renamed"
    assert repr(compiled(X)) == repr(program(X))
    Plain.__qualname__ = "Renamed"
    try:
        assert repr(compiled(X)) == repr(program(X))
    finally:
        Plain.__qualname__ = "Plain"


@pytest.mark.parametrize("made", [lambda: (lambda: None), Plain, lambda: Plain().method])
def test_texts_with_addresses_of_what_the_call_makes_are_made_natively(made: Any) -> None:
    def program(x: torch.Tensor) -> Any:
        value = made()
        return x + 1, repr(value), value

    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    _, text, value = compiled(X)
    assert text == repr(value)
    assert framejit.statistics()["graph_breaks"]


def test_formats_of_subclasses_of_texts_and_numbers() -> None:
    def program(x: torch.Tensor) -> Any:
        text, number = Text("abcd"), Number(7)
        texts = f"{text} {text:>9} {text!r}", f"{number} {number:03d} {number!s}", format(text), format(number, ""), text.__format__("")
        return x + 1, texts, f"{Same('u'):>3}{Same('v')}"

    agrees(program)


def test_formats_that_are_rejected_name_the_class() -> None:
    def program(x: torch.Tensor) -> Any:
        try:
            format(Text("abcd"), "q")
        except ValueError as error:
            return x + 1, str(error)

    framejit.reset()
    assert repr(framejit.compile(program, backend="eager")(X)) == repr(program(X))
