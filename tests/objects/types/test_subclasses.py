"""Subclasses of numbers, strings and containers: overridden operators, what they are worth as keys and indices, fields of C types."""

from __future__ import annotations

import array
import collections
import datetime
import enum
import fractions
import operator
import re

import numpy as np
import pytest
import torch
from agreement import agree_in_text

import framejit


class Evasive(int):
    """Leaves everything to the other operand, but what it answers when it is the right one."""

    def __eq__(self, other):
        return NotImplemented

    def __lt__(self, other):
        return NotImplemented

    def __add__(self, other):
        return NotImplemented

    def __radd__(self, other):
        return NotImplemented

    def __hash__(self):
        return int.__hash__(self)

    def __mul__(self, other):
        return ("mul", int(self), other)

    def __rmul__(self, other):
        return ("rmul", int(self), other)


class EvasiveFloat(float):
    def __eq__(self, other):
        return NotImplemented

    def __hash__(self):
        return 1

    def __lt__(self, other):
        return NotImplemented

    def __rtruediv__(self, other):
        return ("rtruediv", other)


class EvasiveText(str):
    def __eq__(self, other):
        return NotImplemented

    def __hash__(self):
        return 1

    def __add__(self, other):
        return NotImplemented

    def __radd__(self, other):
        return ("radd", other)

    def __rmod__(self, other):
        return ("rmod", other)


class EvasiveBytes(bytes):
    def __eq__(self, other):
        return NotImplemented

    def __hash__(self):
        return 1


class EvasiveTuple(tuple):
    def __eq__(self, other):
        return NotImplemented

    def __hash__(self):
        return 1

    def __lt__(self, other):
        return NotImplemented

    def __add__(self, other):
        return NotImplemented

    def __radd__(self, other):
        return ("radd", other)

    def __rmul__(self, other):
        return ("rmul", other)


class EvasiveList(list):
    def __eq__(self, other):
        return NotImplemented

    def __add__(self, other):
        return NotImplemented

    def __radd__(self, other):
        return ("radd", other)

    def __iadd__(self, other):
        return NotImplemented

    def __rmul__(self, other):
        return ("rmul", other)


class EvasiveDict(dict):
    def __eq__(self, other):
        return NotImplemented

    def __ror__(self, other):
        return ("ror", other)


class EvasiveSet(set):
    def __eq__(self, other):
        return NotImplemented

    def __rand__(self, other):
        return ("rand", other)


class PlainInt(int):
    pass


class PlainFloat(float):
    pass


class PlainText(str):
    pass


class PlainTuple(tuple):
    pass


class PlainComplex(complex):
    pass


class OtherIndex(int):
    """A number whose `__index__` nobody asks: it is a number itself."""

    def __index__(self):
        return 3


class Index:
    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number


def iadd(a, b):
    a += b
    return a


def imul(a, b):
    a *= b
    return a


PAIRS = [
    (Evasive(3), 3), (3, Evasive(3)), (Evasive(3), Evasive(3)), (Evasive(3), PlainInt(3)), (True, Evasive(1)), (PlainInt(1), True),
    (PlainInt(4), 2), (2, PlainFloat(2.0)), (EvasiveFloat(2.0), 2.0), (2.0, EvasiveFloat(2.0)), (2, EvasiveFloat(2.0)), (1j, PlainFloat(2.0)),
    (EvasiveText("a"), "a"), ("a", EvasiveText("a")), ("a", PlainText("b")), (PlainText("a"), "a"), ("%s", EvasiveText("a")), ("ab", PlainInt(2)),
    (EvasiveBytes(b"a"), b"a"), (b"a", EvasiveBytes(b"a")), (EvasiveTuple((1,)), (1,)), ((1,), EvasiveTuple((1,))),
    (PlainTuple((1,)), EvasiveTuple((1,))), (2, EvasiveTuple((1,))), ([1], EvasiveList([1])), (EvasiveList([1]), [1]), ([1], Evasive(2)),
    ((1,), PlainInt(2)), ({1: 2}, EvasiveDict({1: 2})), ({1}, EvasiveSet({1})), ("ab", Index(2)), (Index(2), [1]), ("a", 1.5), (["a"], (1,)),
]  # fmt: skip
OPERATORS = {
    "==": lambda x, a, b: (x + 1, a == b), "<": lambda x, a, b: (x + 1, a < b), "+": lambda x, a, b: (x + 1, a + b), "*": lambda x, a, b: (x + 1, a * b),
    "/": lambda x, a, b: (x + 1, a / b), "%": lambda x, a, b: (x + 1, a % b), "|": lambda x, a, b: (x + 1, a | b), "&": lambda x, a, b: (x + 1, a & b),
    "+=": lambda x, a, b: (x + 1, iadd(a, b)), "*=": lambda x, a, b: (x + 1, imul(a, b)), "in": lambda x, a, b: (x + 1, a in [b], b in (a,)),
    "index": lambda x, a, b: (x + 1, [0, a].index(b)), "key": lambda x, a, b: (x + 1, {a: 1}.get(b), len({a, b})),
    "__eq__": lambda x, a, b: (x + 1, a.__eq__(b)), "__add__": lambda x, a, b: (x + 1, a.__add__(b)), "list ==": lambda x, a, b: (x + 1, [a] == [b]),
    "operator.add": lambda x, a, b: (x + 1, operator.add(a, b)),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_of_subclasses_answer_in_cpythons_order(name):
    for a, b in PAIRS:
        agree_in_text(OPERATORS[name], torch.ones(1), a, b)


NUMBERS = [OtherIndex(1), PlainInt(1), Index(1), True, np.int64(1), 2**70, Index(-(2**70)), 1.5, None]
TAKES_AN_INDEX = {
    "list[i]": lambda x, i: (x + 1, [0, 1, 2, 3, 4][i]), "tuple[i]": lambda x, i: (x + 1, (0, 1, 2, 3, 4)[i]), "str[i]": lambda x, i: (x + 1, "abcdef"[i]),
    "list[i:]": lambda x, i: (x + 1, [0, 1, 2, 3, 4][i:]), "str[::i]": lambda x, i: (x + 1, "abcde"[::i]), "range(i)": lambda x, i: (x + 1, range(i)),
    "len(range(i))": lambda x, i: (x + 1, len(range(i))), "operator.index": lambda x, i: (x + 1, operator.index(i)),
    "deque[i]": lambda x, i: (x + 1, collections.deque([1, 2, 3])[i]), "deque.rotate": lambda x, i: (d := collections.deque([1, 2, 3]), d.rotate(i), x + 1),
    "deque(maxlen)": lambda x, i: (x + 1, collections.deque([1, 2, 3, 4], i)), "list.insert": lambda x, i: (n := [1, 2, 3], n.insert(i, 9), x + 1),
    "list.pop": lambda x, i: (n := [1, 2, 3], n.pop(i), x + 1), "list.index": lambda x, i: ([1, 2, 3].index(3, i), x + 1), "bin": lambda x, i: (bin(i), x + 1),
    "enumerate": lambda x, i: (list(enumerate([1, 2], i)), x + 1), "slice": lambda x, i: (slice(i).indices(5), x + 1),
    "pow": lambda x, i: (pow(2, i, 5), x + 1),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKES_AN_INDEX)
def test_what_an_index_may_be(name):
    for number in NUMBERS:
        agree_in_text(TAKES_AN_INDEX[name], torch.ones(1), number)


class ByNumber:
    """A key that equals a constant by the program's own code."""

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return hash(self.number)

    def __eq__(self, other):
        return self.number == (other.number if isinstance(other, ByNumber) else other)


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


KEYS = [
    1, 1.0, True, "a", "RED", (1,), np.int64(1), PlainInt(1), PlainText("a"), PlainTuple((1,)), Level.LOW, Colour.RED, fractions.Fraction(1),
    ByNumber(1), ByNumber("a"), datetime.date(2020, 1, 1), datetime.timedelta(1), int, (PlainInt(1), 2), (1, 2),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=lambda key: type(key).__name__)
def test_keys_that_equal_others_of_another_type(key):
    def look(x, d, key):
        return x + 1, d.get(key), key in d, d == {key: 5}, list(d.values())

    def change(x, d, key):
        d[key] = 2
        return x + 1, len(d), list(d.values()), d.pop(key), len(d)

    def elements(x, d, key):
        s = set(d)
        return x + 1, key in s, key in d.keys(), len(s | {key})

    for other in KEYS:
        for function in (look, change, elements) if hash(key) == hash(other) else (look,):
            agree_in_text(function, torch.ones(1), {key: 5, "other": 6}, other)


BY_LEVEL = {Level.LOW: 3}
BY_PLAIN_INT = {PlainInt(1): 4}
(THE_PLAIN_INT,) = BY_PLAIN_INT


def test_constants_looked_up_in_globals_with_other_keys():
    agree_in_text(lambda x: (x + BY_LEVEL[1], BY_PLAIN_INT.get(1), BY_PLAIN_INT.get("a"), 1 in BY_LEVEL), torch.ones(1))
    agree_in_text(lambda x, key: x * BY_PLAIN_INT[key], torch.ones(1), THE_PLAIN_INT)
    agree_in_text(lambda x, text: (x + 1, re.sub(r"\d", lambda found: found.group() * 2, text)), torch.ones(1), "1a")


def test_an_attribute_of_a_number_that_two_names_have():
    def f(x, a, b):
        a.mark = 1
        b.mark = 2
        return x + a.mark

    for value in (PlainInt(1), PlainFloat(1.0), PlainText("a"), PlainTuple((1,)), PlainComplex(1)):
        agree_in_text(f, torch.ones(1), value, value)


FIELDS = [
    ("days", datetime.timedelta(2)), ("microseconds", datetime.timedelta(2, 3, 4)), ("real", PlainComplex(1, 2)), ("imag", PlainFloat(1.0)),
    ("numerator", PlainInt(1)), ("start", UnicodeDecodeError("a", b"b", 0, 1, "r")), ("itemsize", np.dtype("f8")), ("alignment", np.dtype("f4")),
    ("__itemsize__", tuple), ("__basicsize__", PlainTuple), ("__dictoffset__", PlainInt), ("year", datetime.date(2020, 1, 2)),
    ("co_argcount", agree_in_text.__code__), ("itemsize", array.array("i", [1])), ("maxlen", collections.deque([1], 3)), ("errno", OSError(1, "a")),
    ("value", StopIteration(3)), ("nbytes", memoryview(b"abc")), ("flags", re.compile("a")), ("characters_written", BlockingIOError(1, "a", 3)),
    ("default_factory", collections.defaultdict(int)), ("start", range(1, 2)), ("exceptions", ExceptionGroup("a", [ValueError()])),
]  # fmt: skip


@pytest.mark.parametrize("name, owner", FIELDS, ids=[f"{type(owner).__name__}.{name}" for name, owner in FIELDS])
def test_fields_of_c_types(name, owner):
    agree_in_text(lambda x, owner: (x + 1, getattr(owner, name)), torch.ones(1), owner)


def test_a_field_of_a_c_type_is_guarded():
    compiled = framejit.compile(lambda x, delta: x * delta.days, backend="eager", fullgraph=True)
    assert compiled(torch.ones(1), datetime.timedelta(2)).item() == 2
    assert compiled(torch.ones(1), datetime.timedelta(3)).item() == 3


class Delta(datetime.timedelta):
    @property
    def days(self):
        return 100 + datetime.timedelta.days.__get__(self)


def test_a_field_of_a_c_type_that_a_subclass_overrides():
    agree_in_text(lambda x, delta: x * delta.days, torch.ones(1), Delta(2))


class Grade(enum.IntEnum):
    TWO = 2


class KindOfInt(int):
    pass


@pytest.mark.parametrize("number", [Grade.TWO, KindOfInt(2), True, np.int64(2)])
@pytest.mark.parametrize("symbol", ["+", "-", "*", "/", "//", "%", "**", "==", "<", "&", "<<", ">>"])
def test_tensors_with_numbers_of_a_subclass(symbol, number):
    """`Tensor.__pow__` and `__ipow__` are functions whose own names are others."""
    dtype = torch.int64 if symbol in ("&", "<<", ">>") else torch.float32
    forward, backward = (eval(f"lambda x, number: {text}") for text in (f"(x {symbol} number).tolist()", f"(number {symbol} x).tolist()"))
    agree_in_text(forward, torch.tensor([3, 4], dtype=dtype), number)
    agree_in_text(backward, torch.tensor([3, 4], dtype=dtype), number)


def test_power_in_place_of_an_int_subclass():
    def function(x, number):
        before = x
        x **= number
        return x.tolist(), x is before, x.__pow__(number).tolist()

    expected, result = (run(torch.tensor([3.0, 4.0]), Grade.TWO) for run in (function, framejit.compile(function, backend="eager")))
    assert result == expected == ([9.0, 16.0], True, [81.0, 256.0])
