"""guards/kinds.py and the leaves in guards/native: every kind of one value against its Python reference; explanations."""

from __future__ import annotations

from collections import OrderedDict, deque
from fractions import Fraction
from typing import Any

import pytest
import torch
from guarding import HERE, STRANGE, LyingDict, LyingList, agrees, call_of, frame_function, kinds_of_guards, matched, one, slot
from hypothesis import given, settings
from hypothesis import strategies as st

from framejit import _runtime
from framejit.guards import locks, script_source, tensor_source
from framejit.guards.build import build
from framejit.guards.container_sources import DictKey
from framejit.guards.explain import describe, explain_failure, notes
from framejit.guards.generators import HasEnded, SuspendedAt
from framejit.guards.global_state import global_state_guard
from framejit.guards.kinds import (
    CodeIs,
    DataEquals,
    DictKeys,
    Equals,
    Guard,
    InOrderOfDict,
    IsMissing,
    IsPresent,
    ItemsEmpty,
    KeyAbsent,
    Length,
    OrderOfCopy,
    SetEquals,
    StoredHashes,
    TensorMatch,
    TypeIs,
    ValueIs,
    places_in_copy,
    same_constant,
)
from framejit.guards.relations import Distinct, Element, LiesInBase, Same, StorageAliasing
from framejit.guards.shape_vm import ShapeInstruction, ShapeProgram
from framejit.guards.shapes import Read, ShapesHold
from framejit.guards.source import (
    MISSING,
    SOURCES,
    Index,
    InstanceDict,
    Item,
    Local,
    Pinned,
    Root,
    Slot,
    Source,
)
from framejit.guards.tensor_source import TensorData
from framejit.guards.tensor_spec import tensor_spec


def test_every_accessor_and_leaf_exists_on_both_sides() -> None:
    assert {locks.__name__, script_source.__name__, tensor_source.__name__} < {kind.__module__ for kind in SOURCES.values()}
    assert set(SOURCES) == set(_runtime.ACCESSORS)
    assert set(kinds_of_guards()) == set(_runtime.LEAVES)


def test_sources_of_two_traces_have_equal_paths_where_they_are_reached_alike() -> None:
    def sources() -> list[Source]:
        root = Root()
        first = root.child(Local, Slot(0, "state"))
        return [first, *(first.child(Index, i) for i in range(2)), *(first.child(Item, key) for key in (1, True, 1.0)), root.child(Pinned, int)]

    here, there = sources(), sources()
    assert not set(here) & set(there)
    assert [source.path() for source in here] == [source.path() for source in there]
    assert len({source.path() for source in here}) == len(here)
    assert here[1].path()[: len(here[0].path())] == here[0].path()
    call = call_of(5)
    assert Length(here[0], None, 3).change(call) == Length(there[0], None, 4).change(call) != Equals(there[0], None, 3).change(call)


def test_reports_name_what_lies_in_a_state_as_the_program_does() -> None:
    state = (Local, Slot(0, "x"))
    root = Root({(state,): "what f goes on with", (state, (Index, 0)): "x", (state, (Index, 1)): "what g goes on with"})
    held = root.child(Local, Slot(0, "x"))
    first, second = held.child(Index, 0), held.child(Index, 1).child(Index, 2).child(InstanceDict).child(Item, "rate")
    assert (first.name_in_reports(), first.describe()) == ("x", "x[0]")
    assert (second.name_in_reports(), second.describe()) == ("what g goes on with[2].rate", "x[1][2].rate")
    assert Same(first, None, second).expected() == "is the same object as what g goes on with[2].rate"
    assert first.child(DictKey, 3).name_in_reports() == "list(x)[3]"


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.sampled_from([0.0, -0.0, 1.0, 2.5, float("inf"), float("nan")]),
    st.floats(),
    st.sampled_from([0j, complex(0.0, -0.0), 1 + 2j]),
    st.text(max_size=3),
    st.binary(max_size=2),
    st.just(...),
)
constants = st.recursive(
    scalars, lambda inner: st.one_of(st.tuples(inner), st.tuples(inner, inner), st.frozensets(inner, max_size=3)), max_leaves=4
)
containers = st.one_of(
    st.lists(constants, max_size=3),
    st.dictionaries(scalars, constants, max_size=3),
    st.dictionaries(scalars, constants, max_size=3).map(OrderedDict),
    st.sets(scalars, max_size=3),
    st.lists(constants, max_size=3).map(deque),
    st.builds(range, st.integers(0, 3), st.integers(0, 3)),
    st.lists(st.integers(0, 3), max_size=3).map(torch.Size),
)
values = st.one_of(constants, containers, st.just(MISSING), st.just(len), st.just(int), st.just(frame_function))


def copied(value: Any) -> Any:
    """An equal constant that is another object, where Python lets one be made."""
    if type(value) in (str, bytes):
        return type(value)(bytearray(value)) if type(value) is bytes else "".join(list(value))
    if type(value) is float:
        return float.fromhex(value.hex())
    if type(value) is int:
        return int(str(value)) if abs(value) < 10**100 else value
    if type(value) is tuple:
        return tuple([copied(item) for item in value])
    if type(value) is frozenset:
        return frozenset([copied(item) for item in value])
    return value


@given(constants, values)
@settings(deadline=None, max_examples=300)
def test_equals(expected: Any, value: Any) -> None:
    built = one(Equals, expected)
    agrees(built, value)
    copy = copied(expected)
    assert agrees(built, copy) or expected != expected or "nan" in repr(expected) or repr(copy) != repr(expected)


@given(containers, values)
@settings(deadline=None)
def test_equals_of_other_c_types(expected: Any, value: Any) -> None:
    if isinstance(expected, (range, torch.Size)):
        agrees(one(Equals, expected), value)
        assert agrees(one(Equals, expected), type(expected)(list(expected)) if isinstance(expected, torch.Size) else expected)


def test_equals_refuses_python_equality() -> None:
    with pytest.raises(TypeError, match="__eq__ is Python code"):
        one(Equals, Fraction(1, 2))


@given(values, values)
@settings(deadline=None)
def test_type_and_value(expected: Any, value: Any) -> None:
    agrees(one(TypeIs, type(expected)), value)
    assert agrees(one(TypeIs, type(value)), value) == (value is not MISSING)
    if expected is not MISSING:
        agrees(one(ValueIs, expected), value)
        assert agrees(one(ValueIs, expected), expected)
    agrees(one(IsMissing), value)
    agrees(one(IsPresent), value)


@given(st.integers(0, 4), values)
@settings(deadline=None)
def test_length(length: int, value: Any) -> None:
    agrees(one(Length, length), value)


def test_subclasses_are_read_without_their_methods() -> None:
    assert agrees(one(Length, 2), LyingList([1, 2]))
    assert agrees(one(Length, 1), LyingDict(a=1))
    assert agrees(one(DictKeys, ("a",)), LyingDict(a=1))
    assert agrees(one(KeyAbsent, "b"), LyingDict(a=1))
    root = Root()
    assert matched(build([], [slot(root).child(Item, "a")], []), LyingDict(a=1)) == [1]


@given(scalars, values)
@settings(deadline=None, max_examples=200)
def test_key_absent(key: Any, value: Any) -> None:
    agrees(one(KeyAbsent, key), value)


@given(st.lists(scalars, max_size=3, unique_by=lambda v: v if v == v else 0), containers)
@settings(deadline=None, max_examples=200)
def test_dict_keys(keys: list[Any], value: Any) -> None:
    built = one(DictKeys, tuple(keys))
    agrees(built, value)
    assert agrees(built, dict.fromkeys(keys))
    assert agrees(built, OrderedDict.fromkeys(keys))
    agrees(built, dict.fromkeys(reversed(keys)))


def test_dict_keys_sees_move_to_end_of_an_ordered_dict() -> None:
    ordered = OrderedDict(a=1, b=2)
    built = one(DictKeys, ("a", "b"))
    assert agrees(built, ordered)
    ordered.move_to_end("a")  # which moves no version tag
    assert not agrees(built, ordered)


class Ordered(OrderedDict):  # type: ignore[type-arg]
    """A subclass, whose methods may say anything."""


@given(st.dictionaries(st.sampled_from("abcd") | st.integers(0, 2), st.sampled_from([OrderedDict, Ordered, dict, None]), max_size=4), values)
@settings(deadline=None)
def test_items_empty(classes: dict[Any, Any], value: Any) -> None:
    built = one(ItemsEmpty, ("a", "b"))
    agrees(built, value)
    holder = {name: cls and cls() for name, cls in classes.items()}
    found = agrees(built, holder)
    assert found is (classes.get("a") is OrderedDict and classes.get("b") is OrderedDict)
    assert agrees(built, LyingDict(holder)) is found
    if found:
        holder["b"]["key"] = 1
        assert not agrees(built, holder)
        del holder["b"]["key"]
        assert agrees(built, holder)
        holder["a"] = OrderedDict(c=1)
        assert not agrees(built, holder)


def test_items_empty_takes_strings() -> None:
    with pytest.raises(TypeError, match="a tuple of strings"):
        one(ItemsEmpty, ("a", 1))


@given(st.lists(st.integers(), max_size=4, unique=True), st.data(), values)
@settings(deadline=None)
def test_in_order_of_dict(keys: list[int], data: st.DataObject, value: Any) -> None:
    built = one(InOrderOfDict, len(keys))
    ordered = OrderedDict.fromkeys(keys)
    agrees(built, value)
    assert agrees(built, ordered) and not agrees(built, dict(ordered)) and not agrees(built, OrderedDict.fromkeys([*keys, "k"]))
    for key in keys:
        ordered.move_to_end(key, last=data.draw(st.booleans()))
        agrees(built, ordered)


class ByNumber:
    """An object whose hash may change while it is a key."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return self.number


@given(st.lists(st.integers(-(2**60), 2**60), max_size=4, unique=True), st.data(), values)
@settings(deadline=None)
def test_stored_hashes(numbers: list[int], data: st.DataObject, value: Any) -> None:
    keys = list(map(ByNumber, numbers))
    for container in (dict.fromkeys(keys), set(keys), frozenset(keys)):
        order = list(container)
        built = one(StoredHashes, tuple([hash(key) if data.draw(st.booleans()) else None for key in order]))
        agrees(built, value)
        assert agrees(built, container) and not agrees(built, {**dict.fromkeys(order), "more": 1})
        for key in keys:
            key.number ^= 8
        assert agrees(built, container)  # its table has the hashes from before
        assert agrees(built, dict.fromkeys(order)) is all(expected is None for expected in built.guards[0].hashes)  # type: ignore[attr-defined]
        for key in keys:
            key.number ^= 8


@given(st.integers(0, 40), st.sets(st.integers(0, 40)), values)
@settings(deadline=None)
def test_order_of_copy(count: int, taken_out: set[int], value: Any) -> None:
    keys = [ByNumber(number * 37) for number in range(count)]
    elements = set(keys)
    elements.difference_update([key for number, key in enumerate(keys) if number in taken_out])
    for container in (elements, set(elements), frozenset(elements)):
        places = places_in_copy(container)
        assert places is not None and [list(container)[place] for place in places] == list(container.copy()) == list(frozenset(container))
        built = one(OrderOfCopy, places)
        agrees(built, value)
        assert agrees(built, container)
        agrees(built, elements)
        assert not agrees(one(OrderOfCopy, (*places, len(places))), container)
        assert len(places) < 2 or not agrees(one(OrderOfCopy, places[::-1]), container)


@given(st.frozensets(scalars, max_size=3), values)
@settings(deadline=None)
def test_set_equals(elements: frozenset[Any], value: Any) -> None:
    agrees(one(SetEquals, tuple(elements)), value)
    copied = set(elements)
    assert agrees(one(SetEquals, tuple(copied)), copied)
    assert agrees(one(SetEquals, tuple(elements)), elements)


def test_set_equals_by_identity() -> None:
    class Similar(type):
        def __eq__(self, other: object) -> bool:
            raise AssertionError("a guard calls no code of the program")

        __hash__ = type.__hash__

    made = Similar("Made", (), {})
    for elements in ({int, str}, {made}, {len, made, 3}, {(1, 2), int}):
        assert agrees(one(SetEquals, tuple(elements)), elements)
        assert agrees(one(SetEquals, tuple(elements)), set(elements)) or len(elements) > 1
        assert not agrees(one(SetEquals, tuple(elements)), {*elements, float})
    assert not agrees(one(SetEquals, (made,)), {Similar("Made", (), {})})
    assert not agrees(one(SetEquals, (int,)), {3}) and not agrees(one(SetEquals, (3,)), {int})


def test_sets_are_told_apart_by_their_order() -> None:
    one_way, other_way = {8, 0}, {0}
    other_way.add(8)
    assert one_way == other_way and list(one_way) != list(other_way)
    assert not agrees(one(SetEquals, tuple(one_way)), other_way)
    assert not agrees(one(Equals, frozenset(one_way)), frozenset(other_way)) or list(frozenset(one_way)) == list(frozenset(other_way))
    assert not agrees(one(Equals, range(0)), range(1, 1))


def test_constants_that_are_equal_but_not_alike() -> None:
    for a, b in [(1, True), (1, 1.0), (0.0, -0.0), ((1,), (True,)), (frozenset({0}), frozenset({False})), (0j, complex(-0.0, 0))]:
        assert not same_constant(a, b)
        assert not agrees(one(Equals, a), b)
        assert agrees(one(Equals, a), a)
    assert not agrees(one(DictKeys, (1,)), {True: 0})
    assert not agrees(one(SetEquals, (1,)), {1.0})


def test_code_is() -> None:
    def make() -> Any:
        return lambda x: x

    built = one(CodeIs, make().__code__)
    assert agrees(built, make())
    assert not agrees(built, frame_function)
    assert not agrees(built, make().__code__)
    function = make()
    function.__code__ = (lambda y: y).__code__
    assert not agrees(built, function)


def test_failure_says_what_where_and_what_to_do() -> None:
    root = Root()
    training = slot(root).child(InstanceDict).child(Item, "training")
    built = build([TypeIs(slot(root), HERE, torch.nn.Linear), Equals(training, HERE, True)], [], [])
    model = torch.nn.Linear(1, 1)
    assert explain_failure(built.guards, call_of(model)) is None
    failure = explain_failure(built.guards, call_of(model.eval()))
    assert failure is not None
    assert (failure.source, failure.expected, failure.found) == ("x0.training", "== True", "False")
    assert failure.line == HERE
    assert "train()" in str(failure.hint)
    assert '"model.py", line 7, in forward' in str(failure)
    spec = tensor_spec(torch.ones(2, 3))
    tensor = one(TensorMatch, spec)
    wrong = explain_failure(tensor.guards, call_of(torch.ones(2, 4)))
    assert wrong is not None and "pad to" in str(wrong.hint) and "[2, 4]" in wrong.found


def test_every_kind_explains_itself() -> None:
    root = Root()
    x, y = slot(root), slot(root, 1)
    guards: list[Guard] = [
        TypeIs(x, HERE, int), ValueIs(x, HERE, frame_function), Equals(x, HERE, 3), Length(x, HERE, 2), KeyAbsent(x, HERE, "k"),
        DictKeys(x, HERE, ("k",)), ItemsEmpty(x, HERE, ("k",)), InOrderOfDict(x, HERE, 2), SetEquals(x, HERE, (1,)), StoredHashes(x, HERE, (1, None)),
            OrderOfCopy(x, HERE, (0,)), IsMissing(x, HERE), CodeIs(x, HERE, frame_function.__code__),
        DataEquals(x.child(TensorData), HERE, b"", "[]"), IsPresent(x, HERE), TensorMatch(x, HERE, tensor_spec(torch.ones(2))),
        Same(x, HERE, y), Distinct(x, HERE, (y,)), Element(x, HERE, y, True), LiesInBase(x, HERE, y),
        StorageAliasing(x, HERE, (x, y), (0, 0), (0, 0)), global_state_guard(root, HERE),
        SuspendedAt(x, HERE, frame_function.__code__, 0, (True,)), HasEnded(x, HERE),
        ShapesHold(x, HERE, (x,), (Read(0, "size", 1),), ShapeProgram(1, (2,), (ShapeInstruction("need_le", 1, 0),), (0,)), (HERE,)),
    ]  # fmt: skip
    assert {type(guard) for guard in guards} == set(kinds_of_guards().values())
    text = describe(guards)
    assert len(text.splitlines()) == len(guards)
    with torch.no_grad():
        for guard in guards:
            assert agrees(build([guard], [], []), 5, 5) == (explain_failure([guard], call_of(5, 5)) is None)
            for value in STRANGE:
                failure = explain_failure([guard], call_of(value, value))
                assert failure is None or (str(failure) and failure.hint)
    assert all(note.failure().line == HERE for note in notes(guards))
