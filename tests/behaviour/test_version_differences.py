"""Builtins and library functions whose behaviour differs between Pythons, compared with eager on each."""

from __future__ import annotations

import abc
import builtins
import enum
import itertools
import sys
import warnings
from collections import OrderedDict
from types import MappingProxyType
from typing import Annotated

import pytest
import torch
from agreement import agree

import framejit

x = torch.arange(3.0)
HAS_STRICT = sys.version_info >= (3, 13)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("length", [4, 5])
def test_incomplete_batches(length, strict):
    if not HAS_STRICT:
        assert not hasattr(itertools, "batched") or "strict" not in str(itertools.batched.__doc__)
        return

    def made_inside(t, items):
        found = []
        try:
            for batch in itertools.batched(items, 2, strict=strict):
                found.append(batch)
        except ValueError as error:
            return t + 1, found, str(error)
        return t, found

    agree(made_inside, x, list(range(length)))

    def made_outside(t, batches):
        found = []
        try:
            for batch in batches:
                found.append(batch)
        except ValueError as error:
            return t + 1, found, str(error)
        return t, found

    results = []
    for run in (made_outside, framejit.compile(made_outside, backend="eager")):
        results.append([run(x, itertools.batched(range(length), 2, strict=strict))[1:] for _ in range(2)])
    assert results[0] == results[1]

    def handed_out(t, items):
        batches = itertools.batched(items, 2, strict=strict)
        next(batches)
        return t + 1, batches

    results = []
    for run in (handed_out, framejit.compile(handed_out, backend="eager")):
        batches = run(x, list(range(length)))[1]
        try:
            results.append(list(batches))
        except ValueError as error:
            results.append(str(error))
    assert results[0] == results[1]


def test_docstrings():
    def program(t):
        def documented():
            """Its text."""

        def formatted():
            f"""Not a docstring {t.dim()}"""

        def joined():
            f"""Not a docstring"""  # noqa: F541

        def returning():
            return "Not a docstring"

        return t + 1, [function.__doc__ for function in (documented, formatted, joined, returning, lambda: "neither")]

    agree(program, x)


def test_unexpected_keywords():
    def takes(noise=None, more_noise=None, /, a=None, *args, late=None):
        pass

    def program(t):
        texts = []
        for name in ("late1", "nois", "b", "args", "totally_different", "LATE"):
            try:
                takes(**{name: t})
            except TypeError as error:
                texts.append(str(error))
        return t, texts

    agree(program, x)


def test_notes_of_pairs_that_are_none():
    def program(t):
        def pairs():
            yield "key"
            raise TypeError("oops")

        found = []
        for items in ([1], [pairs()], [("a", 1), object()]):
            try:
                dict(items)
            except TypeError as error:
                found.append((str(error), getattr(error, "__notes__", None)))
        return t, found

    agree(program, x)


def test_an_object_without_a_class():
    class NoClass:
        def __getattribute__(self, name):
            if name == "__class__":
                raise AttributeError(name)
            return super().__getattribute__(name)

    class Base(metaclass=abc.ABCMeta):
        pass

    def program(t, value):
        try:
            return t, isinstance(value, Base)
        except AttributeError as error:
            return t + 1, str(error)

    agree(program, x, NoClass(), fullgraph=False)


def test_aliases_of_constants():
    if not hasattr(enum.Enum, "_add_value_alias_"):
        assert sys.version_info < (3, 13)
        return

    def program(t):
        class Color(enum.Enum):
            RED = 1
            GREEN = 2

        Color.RED._add_value_alias_(5)
        Color.RED._add_alias_("ROJO")
        return t + 1, Color(5) is Color.RED, Color["ROJO"] is Color.RED

    agree(program, x, fullgraph=False)


@pytest.mark.parametrize("call", [lambda: complex(1j, 2), lambda: complex(1, 2j), lambda: complex(real=2j), lambda: complex(1j), lambda: complex(1, imag=2)])
def test_warnings_of_complex(call):
    def program(t):
        return t * 2, call()

    shown = []
    for run in (program, framejit.compile(program, backend="eager")):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = run(x)[1]
            except TypeError as error:
                result = str(error)
        shown.append((result, [(str(each.message), each.lineno) for each in caught]))
    assert shown[0] == shown[1]


class Returned:
    def __eq__(self, other):
        return other


@pytest.mark.parametrize("mapping", [{"a": 1}, OrderedDict(a=1)], ids=["dict", "OrderedDict"])
def test_what_a_mapping_proxy_compares(mapping):
    def program(t, mapping):
        seen = MappingProxyType(mapping) == Returned()
        return t + 1, seen is mapping, type(seen), MappingProxyType(mapping) == mapping, {"a": 1} == MappingProxyType(mapping)

    agree(program, x, mapping)


def test_docstrings_made_on_demand():
    class Described:
        asked = 0

        def __get__(self, instance, cls):
            assert instance is None
            self.asked += 1
            return f"the text of {cls.__name__}"

    described = Described()

    class A:
        __doc__ = described

    class B:
        """A text."""

    class C(B):
        pass

    def program(t):
        return t + 1, A.__doc__, B.__doc__, C.__doc__, int.__doc__[:3]

    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        assert compiled(x)[1:] == ("the text of A", "A text.", None, "int")
    assert described.asked == 2
    B.__doc__, C.__doc__ = "Another.", "Its own."
    assert compiled(x)[2:4] == ("Another.", "Its own.")


@pytest.mark.skipif(sys.version_info < (3, 15), reason="subclasses of tuple can't have slots before Python 3.15")
@pytest.mark.parametrize("length", [0, 1, 5])
def test_slots_after_items(length):
    class Point(tuple):
        __slots__ = ("a", "b")

    def program(t, point):
        point.a += 1
        return t * point.a, hasattr(point, "b"), len(point)

    compiled = framejit.compile(program, backend="eager")
    points = Point(range(length)), Point(range(length + 1))
    for point in points:
        point.a = 2
        assert compiled(x, point)[1:] == (False, len(point)) and point.a == 3
        assert torch.equal(compiled(x, point)[0], x * 4)
        point.b = 1
        assert compiled(x, point)[1:] == (True, len(point)) and point.a == 5

    def made(t):
        point = Point(range(length))
        point.b = t + 1
        return t + 2, point

    _, point = framejit.compile(made, backend="eager")(x)
    assert type(point) is Point and torch.equal(point.b, x + 1) and not hasattr(point, "a")


def test_fromkeys_of_a_class_whose_call_makes_a_mapping_without_new_items():
    found = getattr(builtins, "frozendict", MappingProxyType)({"a": 1})

    class Subclass(dict):
        def __new__(cls, *args, **kwargs):
            return super().__new__(cls, *args, **kwargs) if args or kwargs else found

    def program(t):
        try:
            made = Subclass.fromkeys("ab")
        except TypeError as error:
            return t, str(error)
        return t + 1, type(made) is Subclass, dict(made)

    agree(program, x, fullgraph=False)


def test_hashes_of_types_with_unhashable_metadata():
    described = Annotated[str, {}]

    def program(t):
        try:
            return t, {described: 1}
        except TypeError as error:
            return t, str(error)

    agree(program, x)


def test_code_with_fewer_positions_than_instructions():
    def divides(t):
        return t, 1 / 0

    divides.__code__ = divides.__code__.replace(co_linetable=b"\xf8\xf8\xf8\xf9\xf8\xf8\xf8")

    def program(t):
        try:
            return divides(t)
        except ZeroDivisionError as error:
            return t, str(error)

    agree(program, x, fullgraph=False)
