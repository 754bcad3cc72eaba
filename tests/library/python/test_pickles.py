"""pickle.dumps and loads in compiled code: round trips are one trace, and bytes are those of the pickler in C."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import functools
import io
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import Comparison, tried
from hypothesis import given, settings
from hypothesis import strategies as st

import framejit


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = None


class Plain:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return type(other) is type(self) and other.__dict__ == self.__dict__

    __hash__ = None


class Reduces(Plain):
    def __reduce__(self):
        return Reduces, (self.value,)


class OwnState(Plain):
    def __getstate__(self):
        return {"kept": self.value}

    def __setstate__(self, state):
        self.value = state["kept"]


class NewArguments(Plain):
    def __new__(cls, value):
        made = super().__new__(cls)
        made.seen = value
        return made

    def __getnewargs__(self):
        return (self.value,)


class Slots:
    __slots__ = ("a",)


class OwnTuple(tuple):
    pass


class OwnList(list):
    pass


class OwnDict(dict):
    pass


Pair = collections.namedtuple("Pair", "a b")
Color = enum.Enum("Color", "RED GREEN")


class Outer:
    class Inner(Plain):
        pass


def with_attribute(value: Any) -> Any:
    value.name = "n"
    return value


def cycle() -> Any:
    made: list[Any] = [1]
    made.append(made)
    return made


VALUES: dict[str, Callable[[], Any]] = {
    "atoms": lambda: [None, True, False, 0, -1, 255, 65536, 2**31, -(2**70), 1.5, math.inf, 2j, b"", b"ab", "", "text \u20ac\n\\"],
    "containers": lambda: {"a": [1, (2, 3), ()], 5: {6}, "f": frozenset([7]), "t": (1, 2, 3, 4), "b": bytes(300)},
    "shared": lambda: [[]] * 2, "range": lambda: range(2, 9, 3),
    "slice": lambda: slice(1, None), "dataclass": lambda: Point(1, [2]), "plain": lambda: Plain({"a": 1}), "reduces": lambda: Reduces([1]),
    "own state": lambda: OwnState(3), "of an inner class": lambda: Outer.Inner(1), "ordered": lambda: collections.OrderedDict(b=1, a=2),
    "default": lambda: collections.defaultdict(list, a=[1]), "deque": lambda: collections.deque([1, 2], 3), "unbounded deque": lambda: collections.deque([1]),
    "named": lambda: Pair(1, [2]), "own tuple": lambda: with_attribute(OwnTuple((1, 2))), "own list": lambda: with_attribute(OwnList([1])),
    "own dict": lambda: OwnDict(a=1), "functions": lambda: [len, math.sqrt, functools.reduce, tried, Point, int, OSError], "enum": lambda: Color.RED,
}  # fmt: skip
NEWER: dict[str, Callable[[], Any]] = {"new arguments": lambda: NewArguments("v")}
"""Values that protocols before 2 make otherwise."""


def round_trip(make: Callable[[], Any], protocol: int | None) -> Any:
    return pickle.loads(pickle.dumps(make(), protocol))


@pytest.mark.parametrize("name", VALUES | NEWER)
@pytest.mark.parametrize("protocol", [None, 0, 1, 2, 3, 4, 5])
def test_round_trip_is_one_trace(name: str, protocol: int | None) -> None:
    make = (VALUES | NEWER)[name]
    if name in NEWER and protocol in (0, 1):
        pytest.skip("of later protocols")
    compiled = framejit.compile(round_trip, backend="eager", fullgraph=True)
    for _ in range(2):
        Comparison().same(round_trip(make, protocol), compiled(make, protocol))


def test_cycle() -> None:
    found = framejit.compile(round_trip, backend="eager", fullgraph=True)(cycle, None)
    assert found[1] is found and found[0] == 1


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_bytes_are_those_of_the_native_pickler(name: str, protocol: int) -> None:
    def fn() -> bytes:
        return pickle.dumps(VALUES[name](), protocol)

    assert framejit.compile(fn, backend="eager")() == fn()


def test_bytes_of_equal_constants_are_made_natively() -> None:
    def fn(a: str, b: str) -> Any:
        data = pickle.dumps([a, b])
        return len(data), pickle.loads(data)

    compiled = framejit.compile(fn, backend="eager")
    same, other = "word", "".join(["wo", "rd"])
    for given_ in ((same, same), (same, other), ("x", "y")):
        assert compiled(*given_) == fn(*given_)


def test_what_an_object_holds_is_pickled_when_it_is_pickled() -> None:
    def fn(x: torch.Tensor) -> Any:
        held = [1]
        data = pickle.dumps(held)
        held.append(2)
        return pickle.loads(data), held, x + 1

    assert framejit.compile(fn, backend="eager", fullgraph=True)(torch.ones(2))[:2] == ([1], [1, 2])


def test_values_from_outside_are_guarded() -> None:
    def fn(point: Point) -> Any:
        return pickle.loads(pickle.dumps(point))

    framejit.reset()
    compiled = framejit.compile(fn, backend="eager", fullgraph=True)
    point = Point(1, ["a"])
    found = compiled(point)
    assert found == point and found is not point and found.y is not point.y
    point.y.append("b")
    assert compiled(point) == point
    assert compiled(Point("text")) == Point("text")


REFUSED: dict[str, Callable[[], Any]] = {
    "local function": lambda: lambda: 1, "slots with an old protocol": Slots, "generator": lambda: (i for i in ()), "file": lambda: io.StringIO("a").write,
    "lock": lambda: __import__("_thread").allocate_lock(), "local class": lambda: type("Local", (), {})(),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_said_of_an_object_that_cannot_be_pickled(name: str) -> None:
    def fn() -> Any:
        kind, text = tried(pickle.dumps, REFUSED[name](), 0)
        return kind, text.partition(" at 0x")[0]

    assert framejit.compile(fn, backend="eager")() == fn()


def test_exceptions_of_the_program_while_it_pickles() -> None:
    seen = []

    class Fails:
        def __reduce__(self):
            seen.append(1)
            raise KeyError("k")

    def fn() -> Any:
        return tried(pickle.dumps, [1, Fails()])

    compiled = framejit.compile(fn, backend="eager")
    assert fn() == compiled() and len(seen) == 2


def test_other_pickles_are_loaded_natively() -> None:
    def fn(data: bytes) -> Any:
        return tried(pickle.loads, data), tried(pickle.loads, b"no pickle"), tried(pickle.loads, b""), tried(pickle.loads, "text")

    compiled = framejit.compile(fn, backend="eager")
    for value in ([1], {"a": 2}):
        assert compiled(pickle.dumps(value)) == fn(pickle.dumps(value))


def test_a_pickle_that_is_shorter_than_it_says_is_refused() -> None:
    def short(x):
        data = pickle.dumps([1, 2, 3])
        return pickle.loads(data[:3] + b"\xff" + data[4:])

    def with_long_frame(x):
        return pickle.loads(b"\x80\x04\x95\x0a\x00\x00\x00\x00\x00\x00\x00K\x01.")

    for program in (short, with_long_frame):
        assert tried(lambda: framejit.compile(program, backend="eager")(torch.ones(1))) == tried(lambda program=program: program(torch.ones(1)))
        assert tried(lambda program=program: program(torch.ones(1))) != tried(lambda: [1, 2, 3])


def test_getstate_of_an_instance() -> None:
    class Hooked(Plain):
        def __getattribute__(self, name):
            return (lambda: {"hooked": 1}) if name == "__getstate__" else super().__getattribute__(name)

    def program(x):
        own = Plain(1)
        own.__getstate__ = lambda: {"own": 2}
        return [sorted(copy.copy(value).__dict__) for value in (own, Hooked(1), Plain(1))]

    assert framejit.compile(program, backend="eager")(torch.ones(1)) == program(torch.ones(1)) == [["own"], ["hooked"], ["value"]]


def test_options_and_long_values_are_left_to_the_native_pickler() -> None:
    def fn() -> Any:
        buffers: list[Any] = []
        data = pickle.dumps(pickle.PickleBuffer(b"ab"), 5, buffer_callback=buffers.append)
        long = list(range(1001))
        return len(buffers), pickle.loads(data, buffers=[b"ab"]), pickle.loads(pickle.dumps(long)) == long, pickle.dumps(long) == pickle.dumps([*long])

    assert framejit.compile(fn, backend="eager")() == fn()


def test_copies_by_reduction() -> None:
    def fn() -> Any:
        makers = (VALUES["own state"], VALUES["named"], VALUES["own list"], VALUES["deque"], NEWER["new arguments"])
        return [copy.copy(make()) for make in makers], [copy.deepcopy(make()) for make in makers]

    Comparison().same(fn(), framejit.compile(fn, backend="eager", fullgraph=True)())


ITERATORS: dict[str, Callable[[], Any]] = {
    "list": lambda: iter([1, 2, 3]), "tuple": lambda: iter((1, 2, 3)), "text": lambda: iter("abc"), "other text": lambda: iter("\u20acx"),
    "bytes": lambda: iter(b"abc"), "range": lambda: iter(range(3, 9, 2)), "backwards": lambda: iter(range(5)[::-2]), "nothing": lambda: iter([]),
}  # fmt: skip


@pytest.mark.parametrize("name", ITERATORS)
@pytest.mark.parametrize("steps", range(5))
def test_iterators_are_copied_with_their_position(name: str, steps: int) -> None:
    def at_position() -> Any:
        made = ITERATORS[name]()
        for _ in range(steps):
            next(made, None)
        return made

    def moved(position: Any) -> Any:
        made = at_position()
        return tried(made.__setstate__, position), list(made)

    def fn() -> Any:
        made = at_position()
        parts = made.__reduce__()
        copies = copy.copy(made), pickle.loads(pickle.dumps(made)), copy.deepcopy(made)
        return parts, [(type(each), list(each)) for each in copies], [moved(position) for position in (-1, 0, 1, 9, "a")], list(made)

    assert repr(framejit.compile(fn, backend="eager")()) == repr(fn())


def test_a_copied_iterator_shares_its_list() -> None:
    def fn() -> Any:
        items = [1, 2]
        iterator = iter(items)
        next(iterator)
        copied = copy.copy(iterator)
        items.append(3)
        return list(iterator), list(copied), iterator.__reduce__()

    assert framejit.compile(fn, backend="eager", fullgraph=True)() == fn()


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=3), inner, max_size=3) | st.builds(Point, inner),
    max_leaves=8,
)


@settings(max_examples=30, deadline=None)
@given(TREES, st.integers(0, 5))
def test_trees(tree: Any, protocol: int) -> None:
    framejit.reset()

    def fn(value: Any) -> Any:
        data = pickle.dumps(value, protocol)
        return data, pickle.loads(data)

    assert framejit.compile(fn, backend="eager")(tree) == fn(tree)
