"""guards/native/memo.cpp and walk.cpp: what an unchanged subtree costs, and that every change below it is seen."""

from __future__ import annotations

import gc
import random
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from guarding import FULL, HERE, Plain, WithSlots, agrees, closure, frame_function, matched, slot
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from framejit.guards.build import BuiltGuards, build
from framejit.guards.container_sources import DictKey, DictValueAt
from framejit.guards.kinds import (
    CodeIs,
    DictKeys,
    Equals,
    Guard,
    IsMissing,
    IsPresent,
    ItemsEmpty,
    KeyAbsent,
    Length,
    SetEquals,
    TensorMatch,
    TypeIs,
    ValueIs,
)
from framejit.guards.relations import Distinct, Same, StorageAliasing
from framejit.guards.source import (
    Call,
    CellContents,
    ClosureCell,
    FrameFunction,
    FunctionField,
    Index,
    InstanceDict,
    Item,
    MethodField,
    Pinned,
    Root,
    Slot,
    SlotMember,
    Source,
    TypeAttr,
)
from framejit.guards.tensor_spec import aliasing_among, tensor_spec


class Layer(nn.Module):
    """A module with what models keep in their attributes."""

    scale = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("table", torch.ones(2, 3))
        self.eps = 1e-5
        self.shape = (1, (2, 3))
        self.names = ["a", "b"]
        self.act = closure(1.5)

    def forward(self) -> None: ...


HOOKS = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")


def guards_of(model: nn.Module, source: Source, guards: list[Guard], inputs: list[Source]) -> None:
    """Everything that can be guarded of a module."""
    guards.append(TypeIs(source, HERE, type(model)))
    attributes = source.child(InstanceDict)
    guards += [TypeIs(attributes, HERE, dict), KeyAbsent(attributes, HERE, "forward"), ItemsEmpty(attributes, HERE, HOOKS)]
    for name, value in model.__dict__.items():
        item = attributes.child(Item, name)
        if name in ("_modules", "_parameters", "_buffers"):
            guards.append(DictKeys(item, HERE, tuple(value)))
        elif isinstance(value, dict) and name not in HOOKS:
            guards.append(Length(item, HERE, len(value)))
        elif isinstance(value, list):
            guards += [TypeIs(item, HERE, list), Length(item, HERE, len(value))]
            guards += [Equals(item.child(Index, i), HERE, v) for i, v in enumerate(value)]
        elif isinstance(value, tuple):
            guards += [Equals(item.child(Index, 0), HERE, value[0]), Equals(item.child(Index, 1).child(Index, 1), HERE, value[1][1])]
        elif callable(value):
            cell = item.child(ClosureCell, Slot(0, "captured")).child(CellContents)
            guards += [CodeIs(item, HERE, value.__code__), Equals(cell, HERE, value.__closure__[0].cell_contents)]
            guards.append(Equals(item.child(FunctionField, "kwdefaults").child(Item, "b"), HERE, 1.5))
            guards.append(Equals(item.child(FunctionField, "defaults").child(Index, 0), HERE, 1.5))
            guards.append(IsMissing(item.child(FunctionField, "dict"), HERE))
        elif name not in HOOKS:
            guards.append(Equals(item, HERE, value))
    for kind in ("_parameters", "_buffers"):
        for name, tensor in getattr(model, kind).items():
            path = attributes.child(Item, kind).child(Item, name)
            guards.append(TensorMatch(path, HERE, tensor_spec(tensor)))
            inputs.append(path)
    for name, child in model._modules.items():
        assert child is not None
        guards_of(child, attributes.child(Item, "_modules").child(Item, name), guards, inputs)


def guarded(model: nn.Module) -> BuiltGuards:
    """A tree for the model as argument 0, which has been matched often enough to rely on memos only."""
    root = Root()
    guards: list[Guard] = []
    inputs: list[Source] = []
    guards_of(model, slot(root), guards, inputs)
    cls = root.child(Pinned, type(model))
    if isinstance(model, Layer):
        guards += [ValueIs(cls.child(TypeAttr, "forward"), HERE, Layer.forward), Equals(cls.child(TypeAttr, "scale"), HERE, 2.0)]
    built = build(guards, inputs, [])
    for _ in range(3):
        assert agrees(built, model)
    return built


def model() -> nn.Sequential:
    return nn.Sequential(*(Layer() for _ in range(3)))


def test_unchanged_model_is_not_visited() -> None:
    whole = model()
    built = guarded(whole)
    assert built.tree.num_nodes > 150
    assert built.tree.visited <= 2  # the argument
    whole.unrelated = 1  # type: ignore[assignment]
    assert agrees(built, whole)
    matched(built, whole)
    assert built.tree.visited <= 2


def test_change_of_one_module_visits_its_surroundings_only() -> None:
    whole = model()
    built = guarded(whole)
    for number in range(5):
        whole[1].unrelated = number
        assert matched(built, whole) is not None
        assert 2 < built.tree.visited < 60, number
    whole.unrelated = 1  # type: ignore[assignment]
    assert matched(built, whole) is not None
    assert built.tree.visited < 60


def test_what_changes_in_every_call_is_not_remembered_every_time() -> None:
    """And what has settled down is remembered again."""
    whole = model()
    built = guarded(whole)
    for number in range(500):
        whole[1].unrelated = number
        assert matched(built, whole) is not None
    for _ in range(70):
        assert matched(built, whole) is not None
    assert built.tree.visited <= 2
    whole[1].eps = 2.0
    assert matched(built, whole) is None


def test_an_argument_that_ended_a_walk_is_looked_at_first() -> None:
    """Nothing else is visited while it ends the next walks as well; as soon as it doesn't, everything is."""
    root = Root()
    data, scale = slot(root), slot(root, 1)
    tag = data.child(InstanceDict).child(Item, "tag")
    built = build([TypeIs(data, HERE, Plain), Equals(tag, HERE, "a"), Equals(scale, HERE, "x")], [data], [])
    value = Plain()
    value.tag = "a"
    assert matched(built, value, "y") is None and built.tree.visited > 0
    assert matched(built, value, "z") is None and built.tree.visited == 0
    assert matched(built, value, "x") == [value]
    value.tag = "b"
    assert matched(built, value, "y") is None and built.tree.visited == 0
    assert not agrees(built, value, "x") and built.tree.visited > 0
    assert not agrees(built, 3, "x") and not agrees(built, 3, "y")
    assert not agrees(built, value, "x")
    value.tag = "a"
    assert agrees(built, value, "x")


def test_a_tensor_that_ended_a_walk_is_looked_at_first() -> None:
    root = Root()
    data, other = slot(root), slot(root, 1)
    built = build([TensorMatch(data, HERE, tensor_spec(torch.ones(3))), TensorMatch(other, HERE, tensor_spec(torch.ones(2)))], [data, other], [])
    assert agrees(built, torch.ones(3), torch.ones(2))
    for _ in range(2):
        assert not agrees(built, torch.ones(3), torch.ones(4))
        assert not agrees(built, torch.ones(4), torch.ones(2))
        assert not agrees(built, torch.ones(4), None)
    assert matched(built, torch.ones(4), torch.ones(2)) is None and built.tree.visited == 0
    assert agrees(built, torch.ones(3), torch.ones(2))


# ---- changes ----

CHANGES: dict[str, Callable[[Any], Any]] = {
    "attribute rebound": lambda m: setattr(m[1], "eps", 1e-6),
    "attribute rebound to an equal one": lambda m: setattr(m[1], "eps", float("1e-5")),
    "attribute of another type": lambda m: setattr(m[1], "eps", 1),
    "attribute deleted": lambda m: delattr(m[1], "eps"),
    "training": lambda m: m[1].eval(),
    "training of the whole": lambda m: m.eval(),
    "forward on the instance": lambda m: setattr(m[1], "forward", None),
    "module replaced by its like": lambda m: setattr(m[1], "linear", nn.Linear(3, 3)),
    "module replaced by another": lambda m: setattr(m[1], "linear", nn.Linear(3, 4)),
    "module replaced in _modules": lambda m: m[1]._modules.update(linear=nn.Linear(4, 3)),
    "modules in another order": lambda m: m._modules.update({"0": m._modules.pop("0")}),
    "parameter replaced": lambda m: setattr(m[1].linear, "bias", nn.Parameter(torch.ones(3))),
    "parameter of another size": lambda m: setattr(m[1].linear, "bias", nn.Parameter(torch.ones(4))),
    "parameter replaced in _parameters": lambda m: m[1].linear._parameters.update(bias=nn.Parameter(torch.ones(4))),
    "parameter that is none": lambda m: m[1].linear._parameters.update(bias=None),
    "parameter that is a tensor": lambda m: m[1].linear._parameters.update(bias=torch.ones(3, requires_grad=True)),
    "_parameters replaced by its like": lambda m: m[1].linear.__dict__.update(_parameters=dict(m[1].linear._parameters)),
    "_parameters replaced": lambda m: m[1].linear.__dict__.update(_parameters={}),
    "_parameters emptied": lambda m: m[1].linear._parameters.clear(),
    "_parameters emptied and filled again": lambda m: refill(m[1].linear._parameters),
    "__dict__ emptied and filled again": lambda m: refill(m[1].__dict__),
    "__dict__ replaced by its like": lambda m: setattr(m[1], "__dict__", dict(m[1].__dict__)),
    "__dict__ replaced": lambda m: setattr(m[1], "__dict__", {**m[1].__dict__, "eps": 3.0}),
    "__dict__ replaced by an ordered one": lambda m: setattr(m[1], "__dict__", OrderedDict(m[1].__dict__)),
    "__dict__ of the whole replaced": lambda m: setattr(m, "__dict__", model().__dict__),
    "__class__ replaced": lambda m: setattr(m[1], "__class__", type("Other", (Layer,), {})),
    "__class__ of a child replaced": lambda m: setattr(m[1].linear, "__class__", nn.Bilinear),
    "__class__ of a parameter replaced": lambda m: setattr(m[1].linear.bias, "__class__", nn.Buffer),
    "hook": lambda m: m[1].register_forward_hook(print),
    "hook on a child": lambda m: m[1].linear.register_forward_pre_hook(print),
    "hooks replaced by their like": lambda m: setattr(m[1], "_forward_hooks", OrderedDict()),
    "hooks replaced": lambda m: setattr(m[1], "_forward_hooks", OrderedDict({1: print})),
    "hooks replaced by a dict": lambda m: setattr(m[1].linear, "_backward_hooks", {}),
    "hooks deleted": lambda m: delattr(m[1].linear, "_backward_pre_hooks"),
    "hook added and removed": lambda m: m[1].register_forward_hook(print).remove(),
    "data of another dtype": lambda m: setattr(m[1].linear.weight, "data", torch.ones(3, 3, dtype=torch.float64)),
    "data of another size": lambda m: setattr(m[1].linear.bias, "data", torch.ones(5)),
    "data of another stride": lambda m: setattr(m[1].linear.weight, "data", torch.ones(3, 3).t()),
    "data of the same kind": lambda m: setattr(m[1].linear.weight, "data", torch.zeros(3, 3)),
    "requires_grad": lambda m: m[1].linear.weight.requires_grad_(False),
    "requires_grad of a buffer": lambda m: m[1].table.requires_grad_(),
    "swapped": lambda m: torch.utils.swap_tensors(m[1].linear.bias, nn.Parameter(torch.ones(4))),
    "swapped with its like": lambda m: torch.utils.swap_tensors(m[1].linear.bias, nn.Parameter(torch.zeros(3))),
    "resized": lambda m: m[1].table.resize_(3, 3),
    "transposed in place": lambda m: m[1].table.t_(),
    "strides changed in place": lambda m: m[1].table.as_strided_((2, 3), (1, 2)),
    "set to another storage": lambda m: m[1].table.set_(torch.zeros(7)),
    "one dimension more": lambda m: m[1].table.unsqueeze_(0),
    "many dimensions": lambda m: m[1].table.resize_(1, 1, 1, 1, 1, 2, 3),
    "made a double": lambda m: m.double(),
    "conjugate bit": lambda m: setattr(m[1], "table", torch.ones(2, 3, dtype=torch.complex64).conj()),
    "item of a list": lambda m: m[1].names.__setitem__(1, "c"),
    "item appended": lambda m: m[1].names.append("c"),
    "list emptied": lambda m: m[1].names.clear(),
    "list emptied and filled again": lambda m: m[1].names.__setitem__(slice(None), ["".join("a"), "b"]),
    "list replaced by a tuple": lambda m: setattr(m[1], "names", ("a", "b")),
    "inside a tuple": lambda m: setattr(m[1], "shape", (1, (2, 4))),
    "tuple replaced by its like": lambda m: setattr(m[1], "shape", tuple([1, tuple([2, 3])])),
    "function replaced": lambda m: setattr(m[1], "act", closure(2.5)),
    "function replaced by its like": lambda m: setattr(m[1], "act", closure(1.5)),
    "cell": lambda m: setattr(m[1].act.__closure__[0], "cell_contents", 2.5),
    "cell emptied": lambda m: delattr(m[1].act.__closure__[0], "cell_contents"),
    "code": lambda m: setattr(m[1].act, "__code__", closure(1, empty=True).__code__.replace(co_name="other")),
    "defaults": lambda m: setattr(m[1].act, "__defaults__", (2.5,)),
    "no defaults": lambda m: setattr(m[1].act, "__defaults__", None),
    "keyword defaults": lambda m: m[1].act.__kwdefaults__.update(b=2.5),
    "keyword defaults replaced": lambda m: setattr(m[1].act, "__kwdefaults__", {"b": 2.5}),
    "attribute of a function": lambda m: setattr(m[1].act, "note", 1),
    "attribute of a function come and gone": lambda m: (setattr(m[1].act, "note", 1), delattr(m[1].act, "note")),
}


def refill(target: dict[str, Any]) -> None:
    items = list(target.items())
    target.clear()
    target.update(items)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_change_is_seen(change: Callable[[Any], Any]) -> None:
    whole = model()
    built, again = guarded(whole), guarded(whole)
    change(whole)
    agrees(built, whole)
    matched(again, whole)
    assert agrees(again, whole) == agrees(built, whole)
    other = model()
    assert agrees(built, other)
    agrees(built, whole)
    assert agrees(built, other)


def test_what_is_seen_of_which_changes() -> None:
    """The changes above are changes: only those that say so leave the guards valid."""
    kept = {name for name, change in CHANGES.items() for whole in [model()] for built in [guarded(whole)] if (change(whole), agrees(built, whole))[1]}
    assert kept == {
        "attribute rebound to an equal one", "module replaced by its like", "parameter replaced", "_parameters replaced by its like",
        "_parameters emptied and filled again", "__dict__ emptied and filled again", "__dict__ replaced by its like",
        "__dict__ of the whole replaced", "hook added and removed", "hooks replaced by their like", "data of the same kind", "swapped with its like",
        "list emptied and filled again", "tuple replaced by its like", "function replaced by its like", "attribute of a function come and gone",
    }  # fmt: skip


def test_patched_class() -> None:
    whole = model()
    whole.add_module("last", Layer())
    layer = Layer()
    built = guarded(layer)
    before = Layer.forward
    try:
        for _ in range(3):
            Layer.forward = lambda self: None  # type: ignore[method-assign, assignment, misc]
            assert not agrees(built, layer)
            Layer.forward = before  # type: ignore[method-assign]
            assert agrees(built, layer)
            Layer.scale = 3.0
            assert not agrees(built, layer)
            Layer.scale = 2.0
            assert agrees(built, layer)
            Layer.unrelated = 1  # type: ignore[attr-defined]
            assert agrees(built, layer)
            del Layer.unrelated  # type: ignore[attr-defined]
    finally:
        Layer.forward, Layer.scale = before, 2.0  # type: ignore[method-assign]


# ---- another object at the same address ----


def at_its_address(old: int, make: Callable[[], Any]) -> Any:
    """A new object where one has just been freed, if the allocator gives that address again soon."""
    kept = []
    for _ in range(200):
        new = make()
        if id(new) == old:
            return new
        kept.append(new)
    return None


REBORN: dict[str, tuple[Callable[[], Any], Callable[[], Any], Callable[[Source], list[Guard]]]] = {
    "a float": (lambda: float("1.5"), lambda: float("2.5"), lambda s: [Equals(s, HERE, 1.5)]),
    "a long": (lambda: int("1234567"), lambda: int("7654321"), lambda s: [Equals(s, HERE, 1234567)]),
    "a text": (lambda: "".join("abc"), lambda: "".join("xyz"), lambda s: [Equals(s, HERE, "abc")]),
    "a tuple": (lambda: tuple([1, 2]), lambda: tuple([1, 3]), lambda s: [Equals(s.child(Index, i), HERE, i + 1) for i in (0, 1)]),
    "a longer tuple": (lambda: tuple([1, 2]), lambda: tuple([1, 2, 3]), lambda s: [Length(s, HERE, 2), Equals(s.child(Index, 0), HERE, 1)]),
    "a list": (lambda: [1, 2], lambda: [1, 3], lambda s: [TypeIs(s, HERE, list), Equals(s.child(Index, 1), HERE, 2)]),
    "a dict": (lambda: {"a": 1}, lambda: {"a": 2}, lambda s: [Equals(s.child(Item, "a"), HERE, 1)]),
    "a dict or none": (lambda: {"a": 1}, lambda: set("a"), lambda s: [KeyAbsent(s, HERE, "b"), Equals(s.child(Item, "a"), HERE, 1)]),
    "a set": (lambda: {1}, lambda: {2}, lambda s: [SetEquals(s, HERE, (1,))]),
    "an instance": (Plain, lambda: setattr(p := Plain(), "here", 3) or p, lambda s: [TypeIs(s.child(InstanceDict).child(Item, "here"), HERE, list)]),
    "an instance of another class": (Plain, lambda: type("Other", (Plain,), {})(), lambda s: [TypeIs(s, HERE, Plain)]),
    "one with slots": (WithSlots, lambda: setattr(w := WithSlots(), "full", 3) or w, lambda s: [TypeIs(s.child(SlotMember, FULL), HERE, list)]),
    "a function": (lambda: closure(1), lambda: closure(2), lambda s: [Equals(s.child(ClosureCell, Slot(0, "c")).child(CellContents), HERE, 1)]),
    "a method": (lambda: Plain().method, lambda: partial(len, 1).__reduce__, lambda s: [TypeIs(s.child(MethodField, "self"), HERE, Plain)]),
    "a tensor": (lambda: torch.ones(2), lambda: torch.ones(3), lambda s: [TensorMatch(s, HERE, tensor_spec(torch.ones(2)))]),
    "a deque": (lambda: deque([1]), lambda: deque([1, 2]), lambda s: [Length(s, HERE, 1)]),
}  # fmt: skip
HOLDERS: dict[str, tuple[Callable[[Any], Any], Callable[[Source], Source], Callable[[Any, Any], Any]]] = {
    "an argument": (lambda v: [v], lambda s: s, lambda h, v: h.__setitem__(0, v)),
    "a list": (lambda v: [v], lambda s: s.child(Index, 0), lambda h, v: h.__setitem__(0, v)),
    "a dict": (lambda v: {"k": v}, lambda s: s.child(Item, "k"), lambda h, v: h.__setitem__("k", v)),
    "a place in a dict": (lambda v: {"k": v}, lambda s: s.child(DictValueAt, 0), lambda h, v: h.__setitem__("k", v)),
}


@pytest.mark.parametrize("held", HOLDERS)
@pytest.mark.parametrize("what", REBORN)
@pytest.mark.parametrize("crowd", [0, 60])
def test_another_object_at_the_same_address(what: str, held: str, crowd: int) -> None:
    """crowd: so many steps lie between the holder and what is held that they don't share a memo."""
    first, second, guards_on = REBORN[what]
    hold, path, put = HOLDERS[held]
    root = Root()
    source = path(slot(root))
    guards = guards_on(source)
    if held != "an argument" and "list" in held:
        guards.append(TypeIs(slot(root), HERE, list))
    guards += [Equals(slot(root, 1).child(Item, i), HERE, 0) for i in range(crowd)]
    built = build(guards, [], [])
    others = dict.fromkeys(range(crowd), 0)
    call = (lambda h: (h[0], others)) if held == "an argument" else (lambda h: (h, others))
    for _ in range(20):
        holder = hold(first())
        for _ in range(3):
            assert agrees(built, *call(holder))
        value = holder[0] if isinstance(holder, list) else holder["k"]
        old = id(value)
        del value
        put(holder, None)
        new = at_its_address(old, second)
        put(holder, second() if new is None else new)
        del new
        for _ in range(2):
            assert not agrees(built, *call(holder)), (what, held)
        put(holder, None)
        put(holder, first())
        assert agrees(built, *call(holder))


def test_tuple_replaced_at_its_address_far_from_its_dict() -> None:
    """The dict's version tells that something has changed; that the tuple's address is the same must not tell that the tuple is."""
    root = Root()
    item = slot(root).child(Item, "t")
    others = [slot(root).child(Item, i) for i in range(20)]
    built = build([Equals(path, HERE, 7) for path in (*others, *(item.child(Index, i) for i in range(18)))], [], [])
    for position in (0, 9, 17):
        holder: dict[Any, Any] = {**dict.fromkeys(range(20), 7), "t": tuple([7] * 18)}
        for _ in range(3):
            assert agrees(built, holder)
        wrong = [7] * 18
        wrong[position] = 8
        old = id(holder["t"])
        holder["t"] = ()
        new = at_its_address(old, partial(tuple, wrong))
        assert new is not None
        holder["t"] = new
        del new
        assert not agrees(built, holder)


# ---- life times ----


@pytest.mark.slow
def test_memo_keeps_nothing_alive_and_outlives_everything() -> None:
    class Own(Layer):
        """A class of the test's own."""

    for _ in range(5):
        whole = nn.Sequential(Own(), Own())
        root = Root()
        guards: list[Guard] = []
        inputs: list[Source] = []
        guards_of(whole, slot(root), guards, inputs)
        tree = build(guards, inputs, []).tree
        for _ in range(3):
            assert tree.match((whole,), frame_function) is not None
        references = [weakref.ref(thing) for thing in (whole, whole[0], whole[0].linear.weight, whole[1].act)]
        like = nn.Sequential(Own(), Own())
        del whole, guards, inputs, root
        gc.collect()
        assert [reference() for reference in references] == [None] * 4
        for _ in range(3):
            tree.match((None,), frame_function)
            assert tree.match((like,), frame_function) is not None or not tree.alive
    gone = weakref.ref(Own)
    del Own, like
    gc.collect()
    assert gone() is None
    assert not tree.alive
    assert tree.match((None,), frame_function) is None


@pytest.mark.slow
def test_many_models_in_turn() -> None:
    models = [model() for _ in range(4)]
    built = guarded(models[0])
    for number in range(200):
        index = number % 4
        expected = [p for p in models[index].state_dict(keep_vars=True).values()]
        found = matched(built, models[index])
        assert found is not None and {id(t) for t in found} == {id(t) for t in expected}
        if number % 10 == 9:
            models[index] = model()
            gc.collect()
    models[2][1].eps = 3.0
    assert [matched(built, each) is not None for each in models] == [True, True, False, True]


# ---- what no word answers ----


def test_order_of_an_ordered_dict() -> None:
    root = Root()
    ordered: OrderedDict[str, int] = OrderedDict(a=1, b=2, c=3)
    built = build([DictKeys(root.child(Pinned, ordered), HERE, ("a", "b", "c")), DictKeys(slot(root).child(Item, "o"), HERE, ("a", "b", "c"))], [], [])
    holder = {"o": OrderedDict(ordered)}
    for target in (ordered, holder["o"]):
        for _ in range(3):
            assert agrees(built, holder)
        target.move_to_end("a")
        assert not agrees(built, holder)
        target.move_to_end("b")
        target.move_to_end("c")
        assert agrees(built, holder)
        target["a"] = 5
        assert agrees(built, holder)
        target["d"] = target.pop("c")
        assert not agrees(built, holder)
        del target["d"]
        target["c"] = 1
        assert agrees(built, holder)


def test_keys_of_a_dict_that_the_call_brings() -> None:
    """They are looked at again only where the dict is another, or has changed."""
    root = Root()
    table = slot(root)
    built = build([DictKeys(table, HERE, ("a", "b")), KeyAbsent(table, HERE, "c"), Equals(table.child(Item, "a"), HERE, 1)], [], [])
    right, other, ordered = {"a": 1, "b": 2}, {"a": 1, "c": 2}, OrderedDict(a=1, b=2)
    for _ in range(3):
        assert agrees(built, right)
    for target in (right, dict(right)):
        target["c"] = 3
        assert not agrees(built, target)
        del target["c"]
        assert agrees(built, target)
        target["a"] = target.pop("a")
        assert not agrees(built, target)
        target["b"] = target.pop("b")
        assert agrees(built, target)
        target["b"] = 5
        assert agrees(built, target)
        target["a"] = 2
        assert not agrees(built, target)
        target["a"] = 1
        for wrong in (other, {}, {"b": 2, "a": 1}, {"a": 1}, 3):
            assert not agrees(built, wrong) and agrees(built, target) and not agrees(built, wrong)
    for _ in range(2):
        assert agrees(built, ordered)
        ordered.move_to_end("a")
        assert not agrees(built, ordered)
        ordered.move_to_end("b")
    for number in range(100):  # one after the other in the same memory
        assert agrees(built, {"a": 1, "b": number} if number % 3 else {"a": 1, "d": number}) == (number % 3 != 0)


SHAPES = [(), (1,), (2,), (3, 1), (1, 3), (3, 3), (2, 3, 1), (1, 2, 3), (2, 1, 1, 1, 3), (1, 1, 1, 1, 2, 3)]


@pytest.mark.parametrize("first", SHAPES)
def test_shapes_changed_in_place(first: tuple[int, ...]) -> None:
    path = slot(Root()).child(Item, "t")
    tensor = torch.ones(first)
    built = build([TensorMatch(path, HERE, tensor_spec(tensor))], [path], [])
    holder = {"t": tensor}
    for shape in [*SHAPES, *reversed(SHAPES)]:
        for _ in range(3):
            assert agrees(built, holder) == (holder["t"].shape == first)
        holder["t"].resize_(shape)
        assert agrees(built, holder) == (shape == first)
        for i, size in enumerate(shape):
            strides = list(holder["t"].stride())
            strides[i] += 1
            holder["t"].as_strided_(shape, strides, 0) if size < 2 else holder["t"].resize_(40).as_strided_(shape, strides, 0)
            assert not agrees(built, holder)
        holder["t"].resize_(first).as_strided_(first, torch.empty(first).stride(), 0)
        assert agrees(built, holder)
        holder["t"].requires_grad_()
        assert not agrees(built, holder)
        holder["t"].requires_grad_(False)


def test_relations_after_memos() -> None:
    root = Root()
    paths = [slot(root).child(Item, key) for key in "abc"]
    x, y, z = torch.ones(4), torch.ones(4), torch.ones(4)
    relations: list[Guard] = [
        Same(paths[0], HERE, slot(root, 1)), Distinct(paths[0], HERE, (paths[1], paths[2])),
        StorageAliasing(paths[0], HERE, tuple(paths), (0, 1, 0), (0, 0, 2)),
    ]  # fmt: skip
    built = build(relations, paths, [])
    values = {"a": x, "b": y, "c": x[2:]}
    for _ in range(3):
        assert agrees(built, values, x)
        assert not agrees(built, values, y)
    values["b"] = x
    assert not agrees(built, values, x)
    values["b"] = y
    assert agrees(built, values, x)
    values["c"].set_(z)
    assert not agrees(built, values, x)
    values["c"].set_(x[2:])
    assert agrees(built, values, x)
    y.data = x
    assert not agrees(built, values, x)
    y.data = z
    assert agrees(built, values, x)


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=50)
def test_objects_that_are_changed_are_none_of_the_others(seed: int) -> None:
    rng = random.Random(seed)
    root = Root()
    count = rng.choice([8, 48])
    paths = [slot(root).child(Index, i) for i in range(count)]
    own = rng.sample(range(count), rng.randrange(1, 6))
    distinct = [Distinct(paths[i], HERE, tuple(rng.sample([p for p in paths if p is not paths[i]], count - 1))) for i in own]
    some = Distinct(paths[0], HERE, (paths[3], paths[5]))
    built = build([*distinct, Distinct(paths[own[0]], HERE, tuple(p for p in paths if p is not paths[own[0]])), some], [], [])
    objects = [object() for _ in range(count)]
    assert agrees(built, objects)
    for _ in range(20):
        changed = list(objects)
        for _ in range(rng.randrange(3)):
            changed[rng.randrange(count)] = rng.choice([*objects, None, object()])
        agrees(built, changed)
        share = rng.choice([0.5, 0.97])
        objects = [one if rng.random() < share else object() for one in objects]
        assert agrees(built, objects)


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=50)
def test_storages_shared_otherwise(seed: int) -> None:
    rng = random.Random(seed)
    root = Root()
    paths = [slot(root).child(Index, i) for i in range(6)]
    bases = [torch.zeros(8) for _ in range(3)]

    def views() -> list[torch.Tensor]:
        return [rng.choice(bases)[rng.choice([0, 2]) :][:4] for _ in paths]

    tensors = views()
    groups, offsets = aliasing_among(tensors, [rng.random() < 0.6 for _ in tensors], exact=rng.random() < 0.3)
    built = build([StorageAliasing(paths[0], HERE, tuple(paths), groups, offsets)], [], [])
    assert agrees(built, tensors)
    for _ in range(10):
        agrees(built, views())
        other = list(tensors)
        other[rng.randrange(6)] = rng.choice([*views(), torch.zeros(4)])
        agrees(built, other)
    bases.reverse()
    assert agrees(built, tensors)


def test_function_of_the_frame_is_looked_at_in_every_call() -> None:
    root = Root()
    function = root.child(FrameFunction)
    cell = function.child(ClosureCell, Slot(0, "captured")).child(CellContents)
    tree = build([Equals(cell, HERE, 1.5)], [cell], []).tree
    ones = [closure(1.5) for _ in range(3)]
    twos = [closure(2.5) for _ in range(3)]
    for _ in range(3):
        for one, two in zip(ones, twos):
            assert tree.match((), one) == [1.5]
            assert tree.match((), one) == [1.5]
            assert tree.match((), two) is None
    ones[0].__closure__[0].cell_contents = 2.0
    assert tree.match((), ones[0]) is None


# ---- at random ----


class Thing:
    """An instance with a dict."""


class Another(Thing):
    """A class that a Thing can be given."""


CONSTANTS: list[Any] = [0, 1, 1.0, True, "a", "b", None, (1, 2), -0.0, 0.0]
NAMES = "abcdef"


def fresh(value: Any) -> Any:
    """A constant equal to `value` that is another object, where there can be one; else `value`."""
    return float(repr(value)) if type(value) is float else tuple(list(value)) if type(value) is tuple else value


def make(rng: random.Random, depth: int) -> Any:
    kind = rng.choice(["constant", "list", "tuple", "dict", "thing", "function", "tensor", "set", "ordered", "ordered"]) if depth else "constant"
    inner = partial(make, rng, depth - 1)
    match kind:
        case "list":
            return [inner() for _ in range(rng.randrange(5))]
        case "tuple":
            return tuple(inner() for _ in range(rng.randrange(4)))
        case "dict":
            return {key: inner() for key in rng.sample(NAMES, rng.randrange(6))}
        case "thing":
            thing = Thing()
            for name in rng.sample(NAMES, rng.randrange(1, 6)):
                setattr(thing, name, inner())
            return thing
        case "function":
            return closure(inner())
        case "tensor":
            return torch.ones(rng.randrange(1, 3), rng.randrange(1, 3))
        case "set":
            return {rng.randrange(3)}
        case "ordered":
            return OrderedDict() if rng.random() < 0.8 else OrderedDict(a=1)
    return fresh(rng.choice(CONSTANTS))


def observe_empty(rng: random.Random, source: Source, holder: dict[str, Any], guards: list[Guard]) -> set[str]:
    """A guard that says of some of the values in a dict that they are OrderedDicts without items. Return their keys."""
    names = [name for name, item in holder.items() if type(item) is OrderedDict and not item and rng.random() < 0.8]
    if names:
        guards.append(ItemsEmpty(source, HERE, tuple(names)))
    return set(names)


def observe(rng: random.Random, source: Source, value: Any, guards: list[Guard], inputs: list[Source]) -> None:
    """Guards on some of what a value is, as a trace would set them."""
    if rng.random() < 0.1:
        guards.append(IsPresent(source, HERE))
        inputs.append(source)
        return
    if type(value) is torch.Tensor:
        guards.append(TensorMatch(source, HERE, tensor_spec(value)))
        inputs.append(source)
    elif type(value) is list or (type(value) is tuple and (rng.random() < 0.7 or not all(type(item) is int for item in value))):
        guards.append(TypeIs(source, HERE, type(value)))
        if rng.random() < 0.7:
            guards.append(Length(source, HERE, len(value)))
        for index, item in enumerate(value):
            observe(rng, source.child(Index, index), item, guards, inputs)
    elif type(value) is dict:
        if rng.random() < 0.7:
            guards.append(TypeIs(source, HERE, dict))
        about_keys = [DictKeys(source, HERE, tuple(value)), Length(source, HERE, len(value)), KeyAbsent(source, HERE, "z")]
        guards.append(rng.choice(about_keys[: 2 if "z" in value else 3]))
        empty = observe_empty(rng, source, value, guards)
        for key, item in value.items():
            if key not in empty:
                observe(rng, source.child(Item, key), item, guards, inputs)
        if value and rng.random() < 0.2:
            guards.append(Equals(source.child(DictKey, 0), HERE, next(iter(value))))
    elif type(value) in (Thing, Another):
        if rng.random() < 0.8:
            guards.append(TypeIs(source, HERE, type(value)))
        attributes = source.child(InstanceDict)
        empty = observe_empty(rng, attributes, vars(value), guards)
        for name, item in vars(value).items():
            if name not in empty:
                observe(rng, attributes.child(Item, name), item, guards, inputs)
        if "z" not in vars(value) and rng.random() < 0.5:
            guards.append(KeyAbsent(attributes, HERE, "z"))
    elif callable(value):
        if rng.random() < 0.7:
            guards.append(CodeIs(source, HERE, value.__code__))
        cell = source.child(ClosureCell, Slot(0, "captured")).child(CellContents)
        observe(rng, cell, value.__closure__[0].cell_contents, guards, inputs)
        defaults = source.child(FunctionField, "defaults")
        guards.append(Length(defaults, HERE, len(value.__defaults__)) if value.__defaults__ else IsMissing(defaults, HERE))
    elif type(value) is set:
        guards.append(SetEquals(source, HERE, tuple(value)))
    elif type(value) is OrderedDict:
        guards.append(DictKeys(source, HERE, tuple(value)))
    else:
        guards.append(Equals(source, HERE, value))


def containers(value: Any, found: list[Any]) -> None:
    """Whatever below a value can be changed."""
    if type(value) in (list, tuple):
        if type(value) is list:
            found.append(value)
        for item in value:
            containers(item, found)
    elif type(value) is dict:
        found.append(value)
        for item in value.values():
            containers(item, found)
    elif type(value) in (Thing, Another):
        found.append(value)
        for item in list(vars(value).values()):
            containers(item, found)
    elif type(value) in (torch.Tensor, set, OrderedDict):
        found.append(value)
    elif callable(value):
        found.append(value)
        containers(value.__closure__[0].cell_contents, found)


def change(rng: random.Random, target: Any) -> None:
    """One change in place, which may come to nothing."""
    if type(target) is list:
        if target and rng.random() < 0.8:
            index = rng.randrange(len(target))
            target[index] = None
            target[index] = make(rng, rng.randrange(3))
        else:
            rng.choice([target.clear, partial(target.append, 1), target.reverse])()
    elif type(target) is dict:
        change_dict(rng, target)
    elif type(target) in (Thing, Another):
        what = rng.random()
        if what < 0.6:
            change_dict(rng, vars(target))
        elif what < 0.7:
            target.__class__ = rng.choice([Thing, Another])
        elif what < 0.85:
            target.__dict__ = dict(vars(target))
        else:
            target.__dict__ = {name: 1 for name in NAMES}
    elif type(target) is torch.Tensor:
        target.resize_(rng.randrange(1, 3), rng.randrange(1, 3)) if not target.requires_grad else target.requires_grad_(False)
        if rng.random() < 0.3:
            target.requires_grad_(not target.requires_grad)
    elif type(target) is set:
        target ^= {rng.randrange(3)}
    elif type(target) is OrderedDict:
        rng.choice([target.clear, partial(target.update, a=1)])()
    else:
        target.__closure__[0].cell_contents = make(rng, 1)
        if rng.random() < 0.3:
            target.__defaults__ = rng.choice([None, (1,), (1, 2)])


def change_dict(rng: random.Random, target: dict[str, Any]) -> None:
    name = rng.choice(NAMES)
    what = rng.random()
    if what < 0.4:
        target[name] = None
        target[name] = make(rng, rng.randrange(3))
    elif what < 0.6 and name in target and type(target[name]) in (float, tuple):
        target[name] = fresh(target[name])
    elif what < 0.75:
        target.pop(name, None)
    elif what < 0.9:
        refill(target)
    else:
        target["z"] = 1


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=200)
def test_random_structures_changed_at_random(seed: int) -> None:
    """The tree, which remembers, agrees with the reference, which doesn't, after each of many changes, undone and not."""
    rng = random.Random(seed)
    value = [make(rng, 3) for _ in range(3)]
    root = Root()
    guards: list[Guard] = []
    inputs: list[Source] = []
    source = slot(root)
    guards.append(TypeIs(source, HERE, list))
    for index, item in enumerate(value):
        observe(rng, source.child(Index, index), item, guards, inputs)
    built = build(guards, inputs, [])
    assert agrees(built, value)
    for _ in range(15):
        found: list[Any] = []
        containers(value, found)
        if found:
            change(rng, rng.choice(found))
        if agrees(built, value):
            captured = matched(built, value)
            assert captured is not None
            call = Call((value,), frame_function)
            assert all(one is source.fetch(call) for one, source in zip(captured, inputs, strict=True))
        if rng.random() < 0.3:
            guards, inputs = [], []
            root = Root()
            source = slot(root)
            guards.append(TypeIs(source, HERE, list))
            for index, item in enumerate(value):
                observe(rng, source.child(Index, index), item, guards, inputs)
            built = build(guards, inputs, [])
            assert agrees(built, value)
