"""Classes of constants that a compiled function makes: new ones in each call, whose members and look-ups are those of eager."""

from __future__ import annotations

import copy
import datetime
import enum
import gc
import pickle
import sys
import warnings
import weakref
from collections.abc import Callable
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum, auto
from typing import Any

import pytest
import torch
from agreement import agree_in_text, tried
from named import Programs

import framejit

PROGRAMS = Programs()
program = PROGRAMS.add
"""Programs that are compiled whole."""


class Base(Enum):
    def __str__(self):
        return f"<{self.name}>"

    def doubled(self):
        return self.value * 2


class Shown(Base):
    ONE = 1


@program
def members_and_look_ups():
    class Colour(Enum):
        RED = 1
        GREEN = "g"
        CRIMSON = 1

        def shown(self): return self.name.lower(), self.value
        @property
        def short(self): return self.name[0]
        @classmethod
        def first(cls): return next(iter(cls))

    found = [Colour(1), Colour["GREEN"], Colour.CRIMSON is Colour.RED, len(Colour), list(Colour), list(reversed(Colour)), Colour.RED in Colour]
    return found, Colour.RED.shown(), Colour.GREEN.short, Colour.first(), list(Colour.__members__), repr(Colour), str(Colour.RED), f"{Colour.GREEN}"


@program
def errors():
    class Colour(Enum):
        RED = 1

    def assign(): Colour.RED = 2
    def delete(): del Colour.RED
    def delete_missing(): del Colour.BLUE
    def derive():
        class More(Colour):
            BLUE = 2
    def twice():
        class Colour(Enum):
            RED = 1
            RED = 2
    def reserved():
        class Colour(Enum):
            _red_ = 1

    calls = (lambda: Colour(5), lambda: Colour["BLUE"], lambda: Colour.BLUE, assign, delete, delete_missing, derive, twice, reserved)
    return [tried(call) for call in calls]


@program
def with_numbers_and_texts():
    class Number(IntEnum):
        A = auto()
        B = auto()
    class Text(StrEnum):
        LOW = auto()
        OTHER = "x"
    class Mixed(float, Enum):
        HALF = 0.5
    return Number.B + 1, Number.A < Number.B, max(Number), str(Number.A), repr(Number.B), Text.LOW.upper(), Text("x"), Mixed.HALF * 2, Mixed.HALF, 2 == Number.B


@program
def flags():
    class Right(Flag):
        READ = auto()
        WRITE = auto()
        ALL = READ | WRITE
    class Bits(IntFlag):
        A = 1
        B = 4
    return (Right.READ | Right.WRITE) is Right.ALL, Right.READ in Right.ALL, list(Right), ~Right.READ, Bits.A | 4, Bits(5)


@program
def with_methods_that_enum_calls():
    class Planet(Enum):
        EARTH = (1.0, 2)
        MARS = (0.5, 3)
        def __init__(self, mass, place): self.mass, self.place = mass, place
        @classmethod
        def _missing_(cls, value): return cls.EARTH if value == "home" else None
    class Counted(Enum):
        def __new__(cls, text):
            made = object.__new__(cls)
            made._value_ = len(cls.__members__)
            made.text = text
            return made
        A = "a"
        B = "b"
    class Lower(Enum):
        def _generate_next_value_(name, start, count, last_values): return name.lower(), count, list(last_values)
        X = auto()
        Y = auto()
    return Planet.MARS.mass, Planet("home"), tried(Planet, "away"), Counted(1).text, Counted.A.value, [each.value for each in Lower]


@program
def derived_and_called():
    class Own(Base):
        A = 4
    made, more = Enum("Made", "a b", module="here"), IntEnum("More", [("p", 3), ("q", 4)], module="somewhere", qualname="Outer.More")
    return Own.A.doubled(), str(Own.A), made.b, made.__module__, made.__qualname__, more.q + 1, more.__module__, more.__qualname__


@program
def texts_of_members_from_outside():
    return str(Shown.ONE), repr(Shown.ONE), f"{Shown.ONE}", format(Shown.ONE)


@program
def members_that_raise():
    def made():
        class Refusing(Enum):
            A = 1
            def __init__(self, value): raise KeyError(value)
    def above():
        class Above(Enum):
            A = 1
            def __new__(cls, value): return super().__new__(cls, value)
    found = []
    for call in (made, above):
        try:
            call()
        except Exception as error:
            found.append((type(error), str(error), repr(error.__cause__), repr(error.__context__)))
    return found


@program
def checked():
    @enum.unique
    class Unique(Enum):
        A = 1
    def double():
        @enum.unique
        class Double(Enum):
            A = 1
            B = 1
    return Unique.A, tried(double)


@program
def with_members_that_are_none():
    class Odd(Enum):
        A = 1
        @enum.member
        def f(self): return 1
        g = enum.nonmember(3)
        _ignore_ = ["h"]
        h = 5
    del Odd.A.__objclass__
    Odd.A.note = [1]
    return list(Odd.__members__), Odd.g, hasattr(Odd, "h"), vars(Odd.A).keys(), Odd.A.note


@pytest.mark.parametrize("function", PROGRAMS.values(), ids=PROGRAMS)
def test_a_class_is_what_it_is_in_eager(function: Callable[[], Any]) -> None:
    framejit.reset()
    agree_in_text(function)
    counted = framejit.statistics()
    assert counted["graph_breaks"] == 0 and counted["recompiles"] == 0


@pytest.mark.skipif(hasattr(sys, "_getframemodulename"), reason="newer Pythons ask C code for the module of the caller")
def test_a_class_that_is_made_by_a_call_is_of_the_module_that_calls() -> None:
    def made() -> Any:
        return Enum("Made", "a b").__module__, Flag("F", {"k": 2}).k, IntEnum("Number", ["x", "y"], start=4).y + 1

    framejit.reset()
    agree_in_text(made)
    assert framejit.statistics()["graph_breaks"] == 0


def test_a_class_that_leaves_is_a_new_one_and_whole() -> None:
    def leaving(x: torch.Tensor, extra: int) -> Any:
        class Kind(Flag):
            A = 1
            B = 2
            def __reduce_ex__(self, protocol): return getattr, (Holder.kind, self._name_)
            def plus(self): return self.value + extra

        del Kind.plus
        Kind.plus = lambda self: self.value + extra + 1
        return x + Kind.B.value, Kind, Kind.A

    class Holder:
        kind: Any = None

    framejit.reset()
    compiled = framejit.compile(leaving, backend="eager", fullgraph=True)
    x = torch.ones(2)
    _, like, _ = leaving(x, 5)
    (first, one, member), (_, other, _) = compiled(x, 5), compiled(x, 5)
    assert one is not other and torch.equal(first, x + 2)
    assert list(vars(one)) == list(vars(like)) and list(one.__members__) == ["A", "B"]
    assert one.A is member is one(1) is one["A"] and type(member) is one and vars(member).keys() == vars(like.A).keys()
    assert (one.A | one.B).value == 3 and one.B.plus() == 8 and member.__objclass__ is one and one.A is not other.A
    Holder.kind = one
    assert copy.deepcopy([member])[0] is member
    ends = weakref.ref(one)
    Holder.kind = one = member = None
    del first
    gc.collect()
    assert ends() is None


def test_values_from_outside_are_guarded() -> None:
    values = {"A": 1}

    def made(x: torch.Tensor) -> Any:
        class Kind(IntEnum):
            A = values["A"]
            B = auto()

        return x + Kind.B, Kind.A.name

    framejit.reset()
    compiled = framejit.compile(made, backend="eager", fullgraph=True)
    for value in (1, 1, 7):
        values["A"] = value
        found, expected = compiled(torch.ones(2)), made(torch.ones(2))
        assert torch.equal(found[0], expected[0]) and found[1] == expected[1]
    assert framejit.statistics()["recompiles"] == 1


def test_members_across_a_graph_break() -> None:
    def broken(x: torch.Tensor) -> Any:
        class Kind(Enum):
            A = 1
            B = 2

        kept = {"a": Kind.A, "all": list(Kind)}
        framejit.graph_break()
        return x + Kind.B.value, kept["a"] is Kind.A, kept["all"][1] is Kind(2), repr(Kind["B"])

    framejit.reset()
    compiled = framejit.compile(broken, backend="eager")
    for _ in range(2):
        found, expected = compiled(torch.ones(2)), broken(torch.ones(2))
        assert torch.equal(found[0], expected[0]) and found[1:] == expected[1:]


def test_members_that_are_pickled_by_their_class_outside() -> None:
    def round_trip(x: torch.Tensor) -> Any:
        class Kind(Enum):
            A = 1

        try:
            return pickle.dumps(Kind.A)
        except Exception as error:
            return type(error).__name__

    framejit.reset()
    compiled = framejit.compile(round_trip, backend="eager")
    assert compiled(torch.ones(2)) == compiled(torch.ones(2)) == round_trip(torch.ones(2))


class Axis(IntEnum):
    ROW = 0
    COLUMN = 2


class Half(float, Enum):
    HALF = 0.5


class Count(int):
    pass


def test_members_that_are_numbers_on_the_left_of_tensors_and_of_other_objects() -> None:
    class Reflecting:
        def __radd__(self, other: Any) -> Any:
            return "reflected", other

    def arithmetic(x: torch.Tensor) -> Any:
        column, count = Axis.COLUMN, Count(3)
        column += x  # type: ignore[assignment]
        found = [Axis.COLUMN + x, Axis.COLUMN * x, Axis.COLUMN - x, Axis.COLUMN / x, Axis.COLUMN**x, Axis.COLUMN // x, Half.HALF * x, count - x, column]
        found += [Axis.COLUMN == x, Axis.ROW < x, Axis.ROW != x, Axis.COLUMN & x.long()]
        return found, Axis.COLUMN + Reflecting(), Axis.COLUMN == [1], Axis.COLUMN * [x], tried(lambda: Axis.ROW + None)

    framejit.reset()
    compiled = framejit.compile(arithmetic, backend="eager", fullgraph=True)
    (found, *rest), (expected, *others) = compiled(torch.arange(1.0, 3)), arithmetic(torch.arange(1.0, 3))
    assert all(map(torch.equal, found, expected)) and repr(rest) == repr(others)


class Day(datetime.date, Enum):
    FIRST = 2024, 1, 1


def test_members_of_other_classes_and_other_values_are_looked_for() -> None:
    """From Python 3.12 on, `in` looks them up among the values too, and a class that the call has made is asked natively."""

    def program(t: torch.Tensor) -> Any:
        class Made(Enum):
            ONE = 1

        values = (Made.ONE, Axis.ROW, Day.FIRST)
        found = [value in owner for value in values for owner in (Made, Axis, Day)]
        return found, Day["FIRST"] is Day.FIRST, t

    compiled = framejit.compile(program, backend="eager", fullgraph=sys.version_info < (3, 12))
    assert str(compiled(torch.ones(2))) == str(program(torch.ones(2)))


def test_a_look_up_of_what_is_no_member_warns_as_in_eager() -> None:
    def program(t: torch.Tensor, value: Any) -> Any:
        try:
            return t + 1, value in Axis
        except TypeError as error:
            return t + 1, str(error)

    def told(function: Any, value: Any) -> Any:
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            result = function(torch.ones(2), value)
        return str(result), [(str(each.message), each.category, each.lineno) for each in given]

    compiled = framejit.compile(program, backend="eager")
    for value in (99, 99, Axis.ROW, Day.FIRST):
        assert told(compiled, value) == told(program, value)
