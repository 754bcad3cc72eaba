"""guards/: every leaf and accessor against its Python reference, whole trees, captures' references, versions, life times."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import types
import weakref
from collections import OrderedDict, deque
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from framejit import _runtime
from framejit.guards import build as build_module
from framejit.guards.build import BuiltGuards, build, check_all
from framejit.guards.explain import describe, explain_failure, notes
from framejit.guards.global_state import global_state_guard, read_state
from framejit.guards.kinds import (
    KINDS,
    CodeIs,
    DictKeys,
    Distinct,
    Equals,
    Guard,
    IsMissing,
    KeyAbsent,
    Length,
    Same,
    SetEquals,
    StorageAliasing,
    TensorMatch,
    TypeIs,
    ValueIs,
    same_constant,
)
from framejit.guards.source import (
    ACCESSORS,
    MISSING,
    Call,
    CAttr,
    CellContents,
    ClosureCell,
    DequeIndex,
    DictKey,
    DictValueAt,
    FrameFunction,
    FunctionField,
    Index,
    InstanceDict,
    Item,
    Local,
    MethodField,
    Pinned,
    Root,
    Slot,
    SlotMember,
    Source,
    TypeAttr,
    TypeOf,
    UserLine,
    WrappedDescriptor,
)
from framejit.guards.tensor_spec import tensor_spec

HERE = UserLine("model.py", 7, "forward")


def frame_function() -> None:
    """Stands for the frame's function."""


def slot(root: Root, index: int = 0) -> Source:
    return root.child(Local, Slot(index, f"x{index}"))


def call_of(*values: Any) -> Call:
    return Call(values, frame_function)


def matched(built: BuiltGuards, *values: Any) -> list[Any] | None:
    return built.tree.match(values, frame_function)


def agrees(built: BuiltGuards, *values: Any) -> bool:
    """Whether the tree matches, having checked that the reference says the same, and names the same guard, each of several times."""
    expected = check_all(built.guards, call_of(*values))
    number = None if expected is None else built.guards.index(expected)
    for _ in range(2):
        assert (matched(built, *values) is not None) == (expected is None), (expected, values)
        assert built.tree.failing(values, frame_function) == number, (expected, values)
        assert (matched(built, *values) is not None) == (expected is None), (expected, values)
    return expected is None


def one(kind: type[Guard], *payload: Any, extra: int = 0) -> BuiltGuards:
    root = Root()
    for index in range(extra):
        slot(root, index + 1)
    return build([kind(slot(root), HERE, *payload)], [], [])


# ---- the two sides have the same things ----


def test_every_accessor_and_leaf_exists_on_both_sides() -> None:
    assert {source.accessor for source in ACCESSORS} == set(_runtime.ACCESSORS)
    assert {kind.leaf for kind in KINDS} == set(_runtime.LEAVES)
    assert set(KINDS) == {*build_module.LEAVES, *build_module.RELATIONS}


# ---- leaves ----

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
    assert agrees(built, copied(expected)) or expected != expected or "nan" in repr(expected)


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


@given(st.integers(0, 4), values)
@settings(deadline=None)
def test_length(length: int, value: Any) -> None:
    agrees(one(Length, length), value)


class LyingList(list):  # type: ignore[type-arg]
    def __len__(self) -> int:
        raise AssertionError("the user's Python ran")


class LyingDict(dict):  # type: ignore[type-arg]
    __len__ = __iter__ = __contains__ = __getitem__ = keys = LyingList.__len__  # type: ignore[assignment]


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


@given(st.frozensets(scalars, max_size=3), values)
@settings(deadline=None)
def test_set_equals(elements: frozenset[Any], value: Any) -> None:
    built = one(SetEquals, elements)
    agrees(built, value)
    assert agrees(built, set(elements))
    assert agrees(built, elements)


def test_constants_that_are_equal_but_not_alike() -> None:
    for a, b in [(1, True), (1, 1.0), (0.0, -0.0), ((1,), (True,)), (frozenset({0}), frozenset({False})), (0j, complex(-0.0, 0))]:
        assert not same_constant(a, b)
        assert not agrees(one(Equals, a), b)
        assert agrees(one(Equals, a), a)
    assert not agrees(one(DictKeys, (1,)), {True: 0})
    assert not agrees(one(SetEquals, frozenset({1})), {1.0})


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


TENSORS = [
    torch.ones(2, 3),
    torch.ones(3, 2).T,
    torch.ones(2, 3, dtype=torch.float64),
    torch.ones(2, 3, requires_grad=True),
    torch.ones(2, 3, requires_grad=True) * 2,
    torch.nn.Parameter(torch.ones(2, 3)),
    torch.ones(2, 3, device="meta"),
    torch.ones(2),
    torch.ones(()),
    torch.ones(2, 3, dtype=torch.complex64),
    torch.ones(2, 3, dtype=torch.complex64).conj(),
    torch.ones(2, 3, dtype=torch.complex64).conj().imag,
    torch.eye(3).to_sparse(),
    torch.eye(3).to_sparse_csr(),
    torch.eye(3).to_sparse_csc(),
    torch.ones(2, 3, dtype=torch.int64),
    torch.ones(4, 3)[::2],
]
with torch.inference_mode():
    TENSORS.append(torch.ones(2, 3))


@pytest.mark.filterwarnings("ignore")
def test_tensor_match_between_all_pairs() -> None:
    for i, expected in enumerate(TENSORS):
        built = one(TensorMatch, tensor_spec(expected))
        for k, value in enumerate(TENSORS):
            same = (i == k) or {i, k} == {3, 4}
            assert agrees(built, value) == same, (i, k)
        assert not agrees(built, 3)
        assert not agrees(built, MISSING)


def test_tensor_match_with_any_size_and_stride() -> None:
    spec = tensor_spec(torch.ones(2, 3))
    free = type(spec)(**{**vars(spec), "sizes": (None, 3), "strides": (None, 1)})
    built = one(TensorMatch, free)
    assert agrees(built, torch.ones(7, 3))
    assert agrees(built, torch.ones(7, 6)[:, :3])
    assert not agrees(built, torch.ones(7, 4))
    assert not agrees(built, torch.ones(7, 6)[:, ::2])
    loose = one(TensorMatch, type(spec)(**{**vars(spec), "strides": None}))
    assert agrees(loose, torch.ones(3, 2).T)


def test_tensor_match_sees_what_keeps_identity() -> None:
    parameter = torch.nn.Parameter(torch.ones(2, 3))
    built = one(TensorMatch, tensor_spec(parameter))
    assert agrees(built, parameter)
    parameter.requires_grad_(False)
    assert not agrees(built, parameter)
    parameter.requires_grad_()
    assert agrees(built, parameter)
    parameter.data = torch.ones(2, 4)
    assert not agrees(built, parameter)
    parameter.data = torch.ones(2, 3)
    assert agrees(built, parameter)
    other = torch.nn.Parameter(torch.ones(5))
    torch.utils.swap_tensors(parameter, other)
    assert not agrees(built, parameter)
    assert agrees(built, other)


class Sub(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError("the user's Python ran")


def test_tensor_subclass_runs_no_torch_function() -> None:
    tensor = torch.ones(2, 3).as_subclass(Sub)
    built = one(TensorMatch, tensor_spec(tensor))
    assert agrees(built, tensor)
    assert not agrees(built, torch.ones(2, 3))
    assert not agrees(one(TensorMatch, tensor_spec(torch.ones(2, 3))), tensor)


def test_relations() -> None:
    root = Root()
    a, b, c = slot(root, 0), slot(root, 1), slot(root, 2)
    same = build([Same(a, HERE, b)], [], [])
    distinct = build([Distinct(a, HERE, (b, c))], [], [])
    x, y = [1], [1]
    assert agrees(same, x, x, y)
    assert not agrees(same, x, y, y)
    assert not agrees(same, MISSING, MISSING, y)
    assert agrees(distinct, x, y, y)
    assert agrees(distinct, x, y, MISSING)
    assert not agrees(distinct, x, y, x)


def test_storage_aliasing() -> None:
    root = Root()
    paths = tuple(slot(root, i) for i in range(3))
    base = torch.zeros(10)
    built = build([StorageAliasing(paths[0], HERE, paths, (0, 0, 1), (0, 5, 0))], [], [])
    other = torch.zeros(3)
    assert agrees(built, base[:5], base[5:], other)
    assert not agrees(built, base[:5], base[4:9], other)
    assert not agrees(built, base[:5], base[5:].clone(), other)
    assert not agrees(built, base[:5], base[5:], base)
    assert not agrees(built, base[:5], base[5:], 3)
    assert not agrees(built, base[:5], base[5:], MISSING)


MODES: list[Any] = [
    torch.no_grad,
    torch.inference_mode,
    lambda: torch.autocast("cpu"),
    lambda: torch.autocast("cpu", dtype=torch.float16),
    lambda: torch.autocast("cpu", cache_enabled=False),
    lambda: torch.device("meta"),
    lambda: torch.device("cpu"),
    torch._C.DisableTorchFunctionSubclass,
    torch._C.DisableTorchFunction,
    lambda: torch.utils.deterministic_mode(True) if hasattr(torch.utils, "deterministic_mode") else torch.no_grad(),
]


def test_global_state_between_all_pairs_of_modes() -> None:
    for i, entered in enumerate(MODES):
        with entered():
            built = build([global_state_guard(Root(), HERE)], [], [])
            assert agrees(built)
        assert not agrees(built)
        for k, other in enumerate(MODES):
            with other():
                assert agrees(built) == (read_state() == built.guards[0].state)  # type: ignore[attr-defined]
                assert agrees(built) or i != k


def test_global_state_settings() -> None:
    built = build([global_state_guard(Root(), HERE)], [], [])
    assert agrees(built)
    torch.set_default_dtype(torch.float64)
    try:
        assert not agrees(built)
    finally:
        torch.set_default_dtype(torch.float32)
    assert agrees(built)
    torch.use_deterministic_algorithms(True)
    try:
        assert not agrees(built)
        inside = build([global_state_guard(Root(), HERE)], [], [])
        torch.use_deterministic_algorithms(True, warn_only=True)
        assert not agrees(inside)
    finally:
        torch.use_deterministic_algorithms(False)
    assert agrees(built)


def test_global_state_knows_a_users_mode() -> None:
    class Mode(torch.overrides.TorchFunctionMode):
        def __eq__(self, other: object) -> bool:
            raise AssertionError("the user's Python ran")

        __hash__ = object.__hash__

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    mode = Mode()
    with mode:
        built = build([global_state_guard(Root(), HERE)], [], [])
        assert agrees(built)
        with torch.device("cpu"):
            assert not agrees(built)
    with Mode():
        assert not agrees(built)
    with mode:
        assert agrees(built)


# ---- accessors ----


class WithSlots:
    __slots__ = ("full", "empty")

    def __init__(self) -> None:
        self.full = [1]


class Plain:
    attribute = [1]

    def __init__(self) -> None:
        self.here = [1]

    def method(self) -> None: ...

    @staticmethod
    def static() -> None: ...

    @classmethod
    def of_class(cls) -> None: ...

    @property
    def prop(self) -> int:
        return 1


class Key:
    """A key that only identity tells apart."""


def closure(value: Any, empty: bool = False) -> Any:
    captured = value

    def inner(a: Any = value, *, b: Any = value) -> Any:
        return captured

    if empty:
        del captured
    return inner


def with_attributes() -> None: ...


with_attributes.note = 1  # type: ignore[attr-defined]


FULL = WithSlots.__dict__["full"]
EMPTY = WithSlots.__dict__["empty"]
STRANGE = [
    None, 3, "text", [1, 2], (1, [2]), {}, {"a": [1]}, {1: "one", "a": 2, Key(): 3}, {True: 1}, OrderedDict(a=1, b=2), {Key(): [1]},
    deque([[1], 2]), deque(), WithSlots(), Plain(), Plain, Plain().method, int, type, len, frame_function, closure([1]),
    closure([1], empty=True), with_attributes, types.CellType(), types.CellType([1]), slice(1, [2]), partial(len, 3), torch.ones(2),
    torch.nn.Linear(2, 2), types, Exception(1),
    *(Plain.__dict__[name] for name in ("static", "of_class", "prop")), property(), LyingList([1]), LyingDict(a=1), torch.Size([1, 2]),
    MISSING,
]  # fmt: skip
STEPS: list[tuple[type[Source], Any]] = [
    (InstanceDict, None), (Item, "a"), (Item, 1), (Item, True), (Item, "b"), (Item, (1, 2)), (DictKey, 0), (DictKey, 2), (DictValueAt, 0),
    (DictValueAt, 1), (Index, 0), (Index, 1), (SlotMember, FULL), (SlotMember, EMPTY), (SlotMember, slice.__dict__["stop"]), (TypeOf, None),
    (TypeAttr, "method"), (TypeAttr, "__init__"), (TypeAttr, "absent"), (CellContents, None), (ClosureCell, Slot(0, "captured")),
    (ClosureCell, Slot(3, "none")), *((FunctionField, name) for name in build_module.FUNCTION_FIELDS), (MethodField, "function"),
    (MethodField, "self"), (DequeIndex, 0), (DequeIndex, 1), *((WrappedDescriptor, name) for name in build_module.WRAPPED_FIELDS),
]  # fmt: skip


@pytest.mark.parametrize("kind,payload", STEPS, ids=lambda p: getattr(p, "accessor", str(p))[:20])
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
    assert found_some or payload in ("absent", 1, "b", (1, 2), EMPTY, "fset", "fdel", True) or getattr(payload, "index", 0) == 3


def test_step_is_tested_for_every_accessor() -> None:
    elsewhere = {Root, Local, FrameFunction, Pinned, CAttr}
    assert {kind for kind, _ in STEPS} | elsewhere == set(ACCESSORS)


def test_local_function_and_pinned() -> None:
    root = Root()
    namespace = {"g": [1]}
    captures = [slot(root, 1), root.child(FrameFunction), root.child(Pinned, namespace).child(Item, "g"), root.child(Pinned, Plain)]
    assert matched(build([], captures, []), 1, 2) == [2, frame_function, [1], Plain]
    assert matched(build([], captures, []), 1) is None
    assert matched(build([], captures, []), 1, _runtime.Unset) is None
    assert matched(build([], captures, []), _runtime.Unset, 2) is not None


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


# ---- trees ----


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
    root = (0, 0, None)
    for nodes, given_leaves, relations, captures in [
        ([], [], [], []),
        ([(accessors["local"], 0, 0)], [], [], []),
        ([root, (accessors["local"], 7, 0)], [], [], []),
        ([root, (accessors["local"], 0, -1)], [], [], []),
        ([root, (accessors["slot_member"], 0, 3)], [], [], []),
        ([root], [(3, 0, int)], [], []),
        ([root], [(0, leaves["type_is"], 3)], [], []),
        ([root], [(0, leaves["tensor_match"], ())], [], []),
        ([root], [(0, leaves["tensor_match"], (int, 0, torch.float32, torch.device("cpu"), torch.strided, False, (), ()))], [], []),
        ([root], [(0, leaves["same"], None)], [], []),
        ([root], [], [(leaves["same"], (0,), (), ())], []),
        ([root], [], [], [1]),
    ]:
        with pytest.raises((ValueError, TypeError)):
            tree(nodes, given_leaves, relations, captures)


def test_under_the_debug_allocator() -> None:
    """The same trees with CPython's checking allocator: overruns and uses after free end the process."""
    selected = "test_matches_and or test_tree_keeps or test_accessor or test_malformed or test_dead_object or test_random"
    environment = {**os.environ, "PYTHONMALLOC": "debug"}
    options = ["-q", "-x", "-p", "no:cacheprovider", "-k", f"({selected}) and not allocator"]
    command = [sys.executable, "-X", "dev", "-m", "pytest", *options, __file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


# ---- explanations ----


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
    assert "model.py:7 in forward" in str(failure)
    spec = tensor_spec(torch.ones(2, 3))
    tensor = one(TensorMatch, spec)
    wrong = explain_failure(tensor.guards, call_of(torch.ones(2, 4)))
    assert wrong is not None and "mark_dynamic" in str(wrong.hint) and "[2, 4]" in wrong.found


def test_every_kind_explains_itself() -> None:
    root = Root()
    x, y = slot(root), slot(root, 1)
    guards: list[Guard] = [
        TypeIs(x, HERE, int), ValueIs(x, HERE, frame_function), Equals(x, HERE, 3), Length(x, HERE, 2), KeyAbsent(x, HERE, "k"),
        DictKeys(x, HERE, ("k",)), SetEquals(x, HERE, frozenset({1})), CodeIs(x, HERE, frame_function.__code__), IsMissing(x, HERE),
        TensorMatch(x, HERE, tensor_spec(torch.ones(2))), Same(x, HERE, y), Distinct(x, HERE, (y,)),
        StorageAliasing(x, HERE, (x, y), (0, 0), (0, 0)), global_state_guard(root, HERE),
    ]  # fmt: skip
    assert {type(guard) for guard in guards} == set(KINDS)
    text = describe(guards)
    assert len(text.splitlines()) == len(guards)
    with torch.no_grad():
        for guard in guards:
            assert agrees(build([guard], [], []), 5, 5) == (explain_failure([guard], call_of(5, 5)) is None)
            for value in STRANGE:
                failure = explain_failure([guard], call_of(value, value))
                assert failure is None or (str(failure) and failure.hint)
    assert all(note.failure().line == HERE for note in notes(guards))
