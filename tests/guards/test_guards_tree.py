"""guards/build.py, guards/source.py and the tree in guards/native: accessors, versions, captures, life times."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from collections import deque
from pathlib import Path
from typing import Any

import pytest
import torch
from guarding import EMPTY, FULL, HERE, STRANGE, Plain, WithSlots, agrees, call_of, frame_function, matched, one, slot
from hypothesis import given, settings
from hypothesis import strategies as st

from framejit import _runtime
from framejit.guards.build import BuiltGuards, build, check_all
from framejit.guards.caches import BEFORE_NAMES
from framejit.guards.container_sources import (
    Cached,
    DequeIndex,
    DictKey,
    DictValueAt,
    IndexLookedUp,
    ItemCount,
    ItemLookedUp,
    IteratorField,
    IteratorItem,
    SetElement,
    ViewedDict,
)
from framejit.guards.explain import describe
from framejit.guards.global_state import global_state_guard
from framejit.guards.kinds import CodeIs, DictKeys, Equals, Guard, IsMissing, KeyAbsent, Length, SetEquals, TensorMatch, TypeIs, ValueIs
from framejit.guards.relations import Distinct
from framejit.guards.source import (
    MISSING,
    SOURCES,
    CAttr,
    CellContents,
    ClosureCell,
    FrameFunction,
    FunctionField,
    HandledException,
    Index,
    InstanceDict,
    Item,
    Local,
    MethodField,
    OwnAttr,
    Pinned,
    Proxied,
    Referent,
    Root,
    Slot,
    SlotMember,
    Source,
    TypeAttr,
)
from framejit.guards.tensor_spec import tensor_spec

STEPS: list[tuple[type[Source], Any]] = [
    (InstanceDict, None), (Item, "a"), (Item, 1), (Item, True), (Item, "b"), (Item, (1, 2)), (DictKey, 0), (DictKey, 2), (DictValueAt, 0),
    (DictValueAt, 1), (Index, 0), (Index, 1), (SlotMember, FULL), (SlotMember, EMPTY), (SlotMember, slice.__dict__["stop"]),
    (TypeAttr, "method"), (TypeAttr, "__init__"), (TypeAttr, "absent"), (OwnAttr, "method"), (OwnAttr, "__init__"),
    (OwnAttr, "absent"), (CellContents, None), (ClosureCell, Slot(0, "captured")),
    (ClosureCell, Slot(3, "none")), *((FunctionField, name) for name in ("code", "defaults", "kwdefaults", "globals", "closure", "dict")),
    (MethodField, "function"), (MethodField, "self"), (DequeIndex, 0), (DequeIndex, 1), (ItemCount, 0), (Referent, None), (Proxied, None), (IteratorItem, 0),
    (IteratorItem, 1), (ViewedDict, None),
    (SetElement, 0), (SetElement, 1), (Cached, 1), (Cached, ("a", 1)),
    (Cached, (weakref.ref(WithSlots), BEFORE_NAMES, "b", 2.0)), (Cached, (WithSlots, BEFORE_NAMES, "b", 2.0, type, float)),
    *((IteratorField, name) for name in ("sequence", "intact", "enumerate.count", "zip.strict", "zip.ittuple")),
]  # fmt: skip


@pytest.mark.parametrize("kind,payload", STEPS, ids=lambda p: getattr(p, "accessor", str(p))[:9])
def test_accessor_agrees_with_fetch(kind: type[Source], payload: Any) -> None:
    root = Root()
    source = slot(root).child(kind, payload)
    capture, absent = build([], [source], []), build([IsMissing(source, HERE)], [], [])
    found_some = False
    for value in STRANGE:
        expected = source.fetch(call_of(value))
        for _ in range(2):
            found = matched(capture, value)
            assert (found is None) == (expected is MISSING), (value, expected)
            assert found is None or found[0] is expected or found[0] == expected
            found_some |= found is not None
        assert agrees(absent, value) == (expected is MISSING)
    assert found_some or payload in ("absent", 1, "b", (1, 2), EMPTY, True) or getattr(payload, "index", 0) == 3


def test_step_is_tested_for_every_accessor() -> None:
    elsewhere = {Root, Local, FrameFunction, HandledException, Pinned, CAttr, ItemLookedUp, IndexLookedUp}
    modules = {Source.__module__, ItemLookedUp.__module__}
    assert {kind for kind, _ in STEPS} | elsewhere == {kind for kind in SOURCES.values() if kind.__module__ in modules}


def test_local_function_and_pinned() -> None:
    root = Root()
    namespace = {"g": [1]}
    captures = [slot(root, 1), root.child(FrameFunction), root.child(Pinned, namespace).child(Item, "g"), root.child(Pinned, Plain)]
    assert matched(build([], captures, []), 1, 2) == [2, frame_function, [1], Plain]
    assert matched(build([], captures, []), 1) is None
    assert matched(build([], captures, []), 1, _runtime.Unset) is None
    assert matched(build([], captures, []), _runtime.Unset, 2) is not None


@pytest.mark.parametrize("kind", [ItemLookedUp, IndexLookedUp])
def test_lookup_agrees_with_fetch(kind: type[Source]) -> None:
    root = Root()
    source = slot(root).child(kind, slot(root, 1))
    capture, absent = build([], [source], []), build([IsMissing(source, HERE)], [], [])
    containers = [*STRANGE, [1, 2], (3, "four"), {"a": 1, 1: 2, -1: 3}, {True: 4, 2**70: 5}, deque([1])]
    found_some = False
    for container in containers:
        for key in ("a", 0, 1, -1, 2**70, True, 1.0, None, [1], (1, 2)):
            expected = source.fetch(call_of(container, key))
            for _ in range(2):
                found = matched(capture, container, key)
                assert (found is None) == (expected is MISSING), (container, key, expected)
                assert found is None or found[0] is expected
                found_some |= found is not None
            assert agrees(absent, container, key) == (expected is MISSING)
    assert found_some


def test_lookups_come_after_their_keys() -> None:
    root = Root()
    a, b = slot(root), slot(root, 1)
    by_each_other = [a.child(Index, 0).child(IndexLookedUp, b.child(Index, 1)), b.child(Index, 0).child(IndexLookedUp, a.child(Index, 1))]
    by_what_is_found = a.child(Index, 0).child(IndexLookedUp, by_each_other[1])
    inside = by_what_is_found.child(Index, 0)
    built = build([Equals(inside, HERE, "yes"), TypeIs(by_what_is_found, HERE, tuple)], [by_what_is_found, *by_each_other], [])
    values = [0, ("no",), ("yes",)]
    assert matched(built, (values, 1), ([1, 2], 0)) == [("yes",), 0, 2]
    assert matched(built, (values, 0), ([1, 2], 0)) is None
    values[1] = ("yes",)
    assert matched(built, (values, 0), ([1, 2], 2)) == [("yes",), ("yes",), 1]
    with pytest.raises(ValueError, match="after its key"):
        _runtime.GuardTree([(_runtime.ACCESSORS["root"], 0, None), (_runtime.ACCESSORS["index_looked_up"], 0, 1)], [], [], [])


def test_values_below_a_lookup_are_seen_to_change() -> None:
    root = Root()
    found = slot(root).child(ItemLookedUp, slot(root, 1))
    built = build([TypeIs(found, HERE, Plain), Equals(found.child(InstanceDict).child(Item, "n"), HERE, 1)], [], [])
    one, other = Plain(), Plain()
    one.n, other.n = 1, 2
    table = {"one": one, "other": other}
    for key, expected in (("one", True), ("other", False), ("one", True), ("one", True), ("other", False)):
        assert agrees(built, table, key) == expected
    other.n = 1
    for key in ("one", "other", "other", "one"):
        assert agrees(built, table, key)
    one.n = 3
    table["other"] = one
    assert not agrees(built, table, "one") and not agrees(built, table, "other") and not agrees(built, table, "none")


def test_handled_exception() -> None:
    handled = Root().child(HandledException)
    captures, nothing = build([], [handled], []), build([TypeIs(handled, HERE, type(None))], [], [])
    fields = build([TypeIs(handled, HERE, KeyError), Equals(handled.child(CAttr, "args").child(Index, 0), HERE, "a")], [], [])

    def check(expected: BaseException | None, has_key: bool) -> None:
        found = matched(captures)
        assert found is not None and found[0] is expected is handled.fetch(call_of())
        assert agrees(nothing) == (expected is None)
        assert agrees(fields) == has_key

    check(None, False)
    for key in "ab":
        try:
            raise KeyError(key)
        except KeyError as error:
            check(error, key == "a")
            try:
                raise ValueError
            except ValueError as inner:
                check(inner, False)
            check(error, key == "a")
    check(None, False)


def test_c_attribute() -> None:
    root = Root()
    source = slot(root)
    fields = [source.child(CAttr, name) for name in ("start", "stop", "nothing")]
    built = build([TypeIs(source, HERE, slice), Equals(fields[0], HERE, 1), IsMissing(fields[2], HERE)], fields[:2], [])
    assert agrees(built, slice(1, 2))
    assert matched(built, slice(1, 2)) == [1, 2]
    assert not agrees(built, slice(0, 2))
    assert not agrees(built, 3)
    tensor = torch.ones(2, requires_grad=True)
    tensor.sum().backward()
    grad = slot(root, 1).child(CAttr, "grad")
    with_grad = build([TensorMatch(slot(root, 1), HERE, tensor_spec(tensor))], [grad], [])
    assert matched(with_grad, 0, tensor)[0] is tensor.grad  # type: ignore[index]
    with pytest.raises(ValueError, match="exact type"):
        build([Equals(fields[0], HERE, 1)], [], [])


def test_keys_that_only_their_own_equality_could_tell() -> None:
    class Trap:
        def __hash__(self) -> int:
            return hash("a")

        def __eq__(self, other: object) -> bool:
            raise AssertionError("the user's Python ran")

    root = Root()
    item = slot(root).child(Item, "a")
    trap = Trap()
    assert matched(build([], [item], []), {trap: 1}) is None
    assert matched(one(KeyAbsent, "a"), {trap: 1}) is None  # can't be known: no match
    assert matched(one(KeyAbsent, "b"), {trap: 1}) == []


def test_tree_shares_prefixes_and_drops_duplicates() -> None:
    root = Root()
    items = [slot(root).child(Item, key) for key in "abc"]
    guards = [TypeIs(slot(root), HERE, dict), *(Equals(item, HERE, 1) for item in items), *(Equals(item, None, 1) for item in items)]
    built = build(guards, items, [slot(root)])
    assert built.tree.size == len(built.guards) == 4
    assert built.num_inputs == 3
    assert built.tree.num_captures == 4
    values = {"a": 1, "b": 1, "c": 1}
    assert agrees(built, values)
    assert matched(built, values) == [1, 1, 1, values]
    for key in "abc":
        assert not agrees(built, {**values, key: 2})


def test_small_subtrees_come_first_and_what_the_tree_holds_last() -> None:
    root = Root()
    first, second, pinned = slot(root, 0), slot(root, 1), root.child(Pinned, {"a": 1})
    guards = [
        Equals(pinned.child(Item, "a"), HERE, 1),
        TypeIs(first, HERE, dict), Equals(first.child(Item, "a"), HERE, 1), Equals(first.child(Item, "b"), HERE, 2),
        KeyAbsent(second, HERE, "c"), TypeIs(second, HERE, dict), KeyAbsent(second, HERE, "b"),
    ]  # fmt: skip
    built = build(guards, [], [])
    assert [guards.index(guard) for guard in built.guards] == [5, 4, 6, 1, 2, 3, 0]
    assert built.tree.match(({"a": 1, "b": 2}, {}), frame_function) == []


def test_types_that_other_guards_imply_are_not_guarded() -> None:
    fixed, changing = "text", Plain()
    for value, kinds in (fixed, {ValueIs}), (changing, {ValueIs, TypeIs}):
        source = slot(Root())
        assert {type(guard) for guard in build([TypeIs(source, HERE, type(value)), ValueIs(source, HERE, value)], [], []).guards} == kinds
    source, spec = slot(Root()), tensor_spec(torch.ones(2))
    assert [type(guard) for guard in build([TypeIs(source, HERE, torch.Tensor), TensorMatch(source, HERE, spec)], [], []).guards] == [TensorMatch]


def test_building_leaks_nothing_and_says_what_is_wrong() -> None:
    class Gone:
        pass

    root, other = Root(), Root()
    gone, member = Gone(), root.child(Pinned, Gone()).child(CAttr, "real")
    guards: list[Guard] = [TypeIs(slot(root), HERE, dict), Equals(slot(root).child(Item, "a"), HERE, 1), Distinct(slot(root), HERE, (slot(root, 1),))]
    wrong: list[tuple[list[Guard], list[Source], str]] = [
        ([*guards, Length(slot(other), HERE, 1)], [], "different roots"),
        ([*guards, ValueIs(slot(root), HERE, gone)], [], "gone already"),
        (guards, [slot(root, 1).child(CAttr, "real")], "exact type"),
        (guards, [member], "exact type of Gone"),
    ]
    del gone
    watched = [root, slot(root), guards, *guards]

    def try_all() -> list[int]:
        build(guards, [slot(root)], [])
        for refused, inputs, message in wrong:
            with pytest.raises(ValueError, match=message):
                build(refused, inputs, [])
        gc.collect()
        return [sys.getrefcount(thing) for thing in watched]

    before = try_all()
    assert [try_all() for _ in range(20)] == [before] * 20


@given(st.data())
@settings(deadline=None, max_examples=150)
def test_random_trees_agree_with_the_reference(data: st.DataObject) -> None:
    """Nested containers, guarded as they are or as a neighbour is; then changed here and there."""
    leaf = st.one_of(st.integers(0, 2), st.sampled_from(["a", "b"]), st.just(1.0))
    nested = st.recursive(
        leaf, lambda inner: st.one_of(st.dictionaries(st.sampled_from("abc"), inner), st.lists(inner, max_size=3)), max_leaves=8
    )
    value = data.draw(nested)
    root = Root()
    guards: list[Guard] = []
    inputs: list[Source] = []

    def observe(source: Source, value: Any) -> None:
        guards.append(TypeIs(source, HERE, type(value)))
        if isinstance(value, dict):
            guards.append(data.draw(st.sampled_from([DictKeys(source, HERE, tuple(value)), KeyAbsent(source, HERE, "z")])))
            for key, item in value.items():
                observe(source.child(Item, key), item)
        elif isinstance(value, list):
            guards.append(Length(source, HERE, len(value)))
            for index, item in enumerate(value):
                observe(source.child(Index, index), item)
        elif data.draw(st.booleans()):
            guards.append(Equals(source, HERE, value))
        else:
            inputs.append(source)

    observe(slot(root), value)
    built = build(guards, inputs, [])
    assert agrees(built, value)
    dicts = [v for v in gc.get_referents(value) if isinstance(v, dict)] + ([value] if isinstance(value, dict) else [])
    for target in dicts:
        for key in data.draw(st.lists(st.sampled_from("abcz"), max_size=3)):
            before = target.get(key, MISSING)
            target[key] = data.draw(nested)
            agrees(built, value)
            if before is MISSING:
                del target[key]
            elif data.draw(st.booleans()):
                target[key] = before
            agrees(built, value)
    agrees(built, data.draw(nested))
    agrees(built, value)


def test_version_of_one_dict_does_not_vouch_for_another() -> None:
    root = Root()
    item = slot(root).child(Item, "a")
    built = build([Equals(item, HERE, 1), Equals(slot(root).child(Item, "b"), HERE, 1)], [], [])
    good, bad = {"a": 1, "b": 1}, {"a": 1, "b": 2}
    for _ in range(3):
        assert agrees(built, good)
        assert not agrees(built, bad)
    captured = build([Equals(slot(root).child(Item, "b"), HERE, 1)], [item], [])
    first, second = {"a": [1], "b": 1}, {"a": [2], "b": 2}
    assert matched(captured, first) == [[1]]
    assert matched(captured, second) is None
    assert matched(captured, first) == [[1]]


def test_replaced_instance_dict_and_class() -> None:
    root = Root()
    path = slot(root).child(InstanceDict).child(Item, "here")
    built = build([TypeIs(slot(root), HERE, Plain), Equals(path, HERE, 1)], [], [])
    plain = Plain()
    plain.here = 1  # type: ignore[assignment]
    assert agrees(built, plain)
    plain.__dict__ = {"here": 2}
    assert not agrees(built, plain)
    plain.__dict__ = {"here": 1}
    assert agrees(built, plain)
    plain.__class__ = type("Other", (Plain,), {})
    assert not agrees(built, plain)


def test_patched_class_is_seen() -> None:
    class Base:
        def forward(self) -> None: ...

    class Model(Base):
        pass

    root = Root()
    pinned = root.child(Pinned, Model)
    original = Base.forward
    built = build([ValueIs(pinned.child(TypeAttr, "forward"), HERE, original), IsMissing(pinned.child(TypeAttr, "call"), HERE)], [], [])
    for _ in range(3):
        assert agrees(built)
        Model.forward = lambda self: None  # type: ignore[method-assign]
        assert not agrees(built)
        del Model.forward
        assert agrees(built)
        Base.forward = lambda self: None  # type: ignore[method-assign]
        assert not agrees(built)
        Base.forward = original  # type: ignore[method-assign]
        Base.call = 1  # type: ignore[attr-defined]
        assert not agrees(built)
        del Base.call  # type: ignore[attr-defined]


def test_watched_dict_is_still_seen_to_change() -> None:
    """On 3.12, a watcher (the adaptive interpreter's own, for globals) uses the low bits of the version tag."""
    namespace: dict[str, Any] = {"__builtins__": __builtins__, "value": 1}
    exec("def read():\n    return value", namespace)
    for _ in range(100):
        namespace["read"]()
    root = Root()
    built = build([Equals(root.child(Pinned, namespace).child(Item, "value"), HERE, 1)], [], [])
    for number in (1, 2, 1, 3, 1):
        namespace["value"] = number
        namespace["read"]()
        assert agrees(built) == (number == 1)


# ---- references ----


def rich_tree() -> tuple[BuiltGuards, Any, list[Any]]:
    root = Root()
    source = slot(root)
    model = torch.nn.Linear(2, 2)
    model.extra = [deque([[1]]), slice([1], [2])]  # type: ignore[assignment]
    attributes = source.child(InstanceDict)
    weight = attributes.child(Item, "_parameters").child(Item, "weight")
    extra = attributes.child(Item, "extra")
    first, second = extra.child(Index, 0), extra.child(Index, 1)
    guards = [
        global_state_guard(root, HERE), TypeIs(source, HERE, torch.nn.Linear), TensorMatch(weight, HERE, tensor_spec(model.weight)),
        Length(attributes.child(Item, "_forward_hooks"), HERE, 0), Equals(attributes.child(Item, "training"), HERE, True),
        KeyAbsent(attributes, HERE, "forward"), TypeIs(second, HERE, slice), Distinct(weight, HERE, (extra,)),
    ]  # fmt: skip
    inputs = [weight, first.child(DequeIndex, 0), second.child(CAttr, "start")]
    objects = [model, model.weight, model.extra, model.extra[0], model.extra[0][0], model.extra[1], model.extra[1].start]  # type: ignore[index]
    return build(guards, inputs, [source]), model, objects


def test_matches_and_failures_leak_nothing() -> None:
    built, model, objects = rich_tree()
    found = matched(built, model)
    assert found is not None and found[0] is model.weight and found[3] is model
    del found
    before = [sys.getrefcount(thing) for thing in objects]
    for _ in range(100_000):
        built.tree.match((model,), frame_function)
    assert [sys.getrefcount(thing) for thing in objects] == before
    model.train(False)
    for _ in range(100_000):
        assert built.tree.match((model,), frame_function) is None
    model.extra[1] = 3  # type: ignore[index]
    for _ in range(1000):
        built.tree.failing((model,), frame_function)
    assert [sys.getrefcount(thing) for thing in objects][:5] == before[:5]


def test_captures_are_new_references() -> None:
    root = Root()
    built = build([], [slot(root), slot(root)], [])
    value = object()
    before = sys.getrefcount(value)
    found = matched(built, value)
    assert found is not None
    assert sys.getrefcount(value) == before + 2
    del found
    assert sys.getrefcount(value) == before


def test_tree_keeps_no_model_class_or_function_alive() -> None:
    class Model(torch.nn.Module):
        __slots__ = ("slotted",)

        def forward(self) -> None: ...

    model = Model()
    function = lambda: None
    root = Root()
    guards = [
        ValueIs(slot(root), HERE, model),
        TypeIs(slot(root), HERE, Model),
        ValueIs(root.child(Pinned, Model).child(TypeAttr, "forward"), HERE, Model.forward),
        IsMissing(slot(root).child(SlotMember, Model.__dict__["slotted"]), HERE),
        CodeIs(slot(root, 1), HERE, function.__code__),
    ]
    built = build(guards, [], [])
    del guards
    assert agrees(built, model, function)
    assert built.tree.alive
    references = [weakref.ref(thing) for thing in (model, Model, function)]
    del model, Model, function
    gc.collect()
    assert [reference() for reference in references] == [None, None, None]
    assert not built.tree.alive
    assert matched(built, None, None) is None
    assert check_all(built.guards, call_of(None, None)) is not None
    assert built.tree.failing((None, None), frame_function) is not None
    describe(built.guards)


def test_tree_of_a_dead_object_matches_nothing_at_its_address() -> None:
    root = Root()
    for _ in range(50):
        first = Plain()
        built = build([ValueIs(slot(root), HERE, first)], [], [])
        assert agrees(built, first)
        del first
        second = Plain()  # most likely at the same address
        assert not agrees(built, second)


def test_the_first_failing_guard_of_a_tree_whose_class_is_gone() -> None:
    """Nothing of the class is looked at, nor of what may be at its address now."""
    for _ in range(8):
        root, cls = Root(), type("Gone", (), {"__slots__": ("slotted",), "name": "here"})
        pinned, slotted = root.child(Pinned, cls), slot(root).child(SlotMember, vars(cls)["slotted"])
        guards = [TypeIs(pinned, HERE, type), Equals(pinned.child(TypeAttr, "name"), HERE, "here"), IsMissing(slotted, HERE)]
        tree = build(guards, [], []).tree
        assert tree.failing((cls(),), frame_function) is None
        del cls, pinned, slotted, guards, root
        gc.collect()
        assert not tree.alive and tree.match((3,), frame_function) is None and tree.failing((type("Other", (), {})(),), frame_function) == 0


def test_constants_that_only_the_tree_knows_stay_alive() -> None:
    root = Root()
    constant, key = frozenset({"a", "b"}), frozenset({1, 2})  # which could be referenced weakly
    elements = tuple(constant)
    item = slot(root, 1).child(Item, key)
    tree = build([Equals(slot(root), HERE, constant), SetEquals(slot(root, 2), HERE, elements), Equals(item, HERE, 1)], [], []).tree
    del root, constant, key, item, elements
    gc.collect()
    assert tree.alive
    assert tree.match((frozenset({"a", "b"}), {frozenset({1, 2}): 1}, {"a", "b"}), frame_function) == []


def test_object_that_has_no_weak_references_is_held() -> None:
    value = WithSlots()
    built = one(ValueIs, value)
    assert agrees(built, value)
    address = id(value)
    del value
    assert built.guards[0].reference.get() is not MISSING and built.guards[0].reference.address == address  # type: ignore[attr-defined]


def test_tree_in_a_cycle_is_collected() -> None:
    class Holder:
        __slots__ = ("tree", "__weakref__")

    holder = Holder()
    values = [holder]  # a list can't be referenced weakly
    root = Root()
    holder.tree = build([ValueIs(slot(root), None, values)], [], []).tree  # type: ignore[attr-defined]
    reference = weakref.ref(holder)
    del holder, values, root
    gc.collect()
    assert reference() is None


def test_collection_is_off_during_a_match_only() -> None:
    built, model, _ = rich_tree()
    assert gc.isenabled()
    matched(built, model)
    assert gc.isenabled()
    gc.disable()
    try:
        matched(built, model)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_malformed_specs_are_refused() -> None:
    tree, accessors, leaves = _runtime.GuardTree, _runtime.ACCESSORS, _runtime.LEAVES
    root = (accessors["root"], 0, None)
    for nodes, given_leaves, relations, captures in [
        ([], [], [], []),
        ([(accessors["local"], 0, 0)], [], [], []),
        ([root, root], [], [], []),
        ([root, (len(accessors), 0, None)], [], [], []),
        ([root, (accessors["local"], 7, 0)], [], [], []),
        ([root, (accessors["local"], 0, -1)], [], [], []),
        ([root, (accessors["slot_member"], 0, 3)], [], [], []),
        ([root], [(3, 0, int)], [], []),
        ([root], [(0, leaves["type_is"], 3)], [], []),
        ([root], [(0, leaves["tensor_match"], ())], [], []),
        ([root], [(0, leaves["tensor_match"], (int, 0, torch.float32, torch.device("cpu"), torch.strided, False, (), ()))], [], []),
        ([root], [(0, leaves["same"], None)], [], []),
        ([root, (accessors["local"], 0, 0)], [(1, leaves["global_state"], global_state_guard(Root()).native())], [], []),
        ([root], [(0, leaves["length"], "1")], [], []),
        ([root, (accessors["function_field"], 0, "absent")], [], [], []),
        ([root, (accessors["method_field"], 0, 1)], [], [], []),
        ([root], [], [(leaves["same"], (0,), ())], []),
        ([root], [], [(leaves["same"], (0, 0), (1, 1))], []),
        ([root], [], [(leaves["storage_aliasing"], (0,), (0,))], []),
        ([root], [], [(leaves["type_is"], (0,), ())], []),
        ([root], [], [], [1]),
    ]:
        with pytest.raises((ValueError, TypeError)):
            tree(nodes, given_leaves, relations, captures)


@pytest.mark.slow
def test_under_the_debug_allocator() -> None:
    """The tests of guard trees pass under CPython's checking allocator, which ends the process at overruns and uses after free."""
    selected = "test_matches_and or test_tree_keeps or test_accessor or test_malformed or test_dead_object or test_random"
    environment = {**os.environ, "PYTHONMALLOC": "debug"}
    files = [str(path) for path in Path(__file__).parent.glob("test_guards*.py")]
    options = ["-q", "-x", "-p", "no:cacheprovider", "-k", f"({selected}) and not allocator"]
    command = [sys.executable, "-X", "dev", "-m", "pytest", *options, *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


