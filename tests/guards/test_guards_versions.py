"""runtime_c/cpython/versions.h: what tells of changes of dicts and classes. Memos believe it, so each way of changing one must be noticed."""

from __future__ import annotations

import collections
import ctypes
import gc
import resource
import types
from collections.abc import Callable
from typing import Any

import pytest
from guarding import HERE, agrees, matched, slot
from handmade import run_python

from framejit.guards.build import BuiltGuards, build
from framejit.guards.kinds import Equals, Guard, KeyAbsent, TypeIs
from framejit.guards.source import InstanceDict, Item, Pinned, Root, TypeAttr

C_API = ctypes.pythonapi


def of_item() -> BuiltGuards:
    """A tree about the dict that is argument 0: its key "a", and two that it doesn't have."""
    source = slot(Root())
    return build([Equals(source.child(Item, "a"), HERE, 1), KeyAbsent(source, HERE, "b"), KeyAbsent(source, HERE, "z")], [source.child(Item, "a")], [])


def settled(built: BuiltGuards, *values: Any) -> BuiltGuards:
    """The tree, after it has matched often enough to have memos."""
    for _ in range(4):
        assert agrees(built, *values)
    assert built.tree.visited <= 2  # the argument
    return built


def call_c(name: str, *arguments: Any) -> None:
    getattr(C_API, name)(*(each if isinstance(each, (bytes, ctypes.c_int)) else ctypes.py_object(each) for each in arguments))


class Sub(dict):  # type: ignore[type-arg]
    """A dict with attributes of its own."""


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "item": lambda d: d.__setitem__("a", 2),
    "new item": lambda d: d.__setitem__("b", 2),
    "item deleted": lambda d: d.__delitem__("a"),
    "pop": lambda d: d.pop("a"),
    "popitem": lambda d: d.popitem(),
    "clear": lambda d: d.clear(),
    "setdefault": lambda d: d.setdefault("b", 2),
    "update": lambda d: d.update(a=2),
    "update with a dict": lambda d: d.update({"a": 2}),
    "update with pairs": lambda d: d.update([("b", 2)]),
    "|=": lambda d: d.__ior__({"b": 2}),
    "made again": lambda d: d.__init__(a=2),  # type: ignore[misc]
    "program": lambda d: exec("a = 2", {}, d),
    "global variable": lambda d: exec("global a\na = 2", d),
    "global variable deleted": lambda d: exec("global a\ndel a", d),
    "global variable of a function": lambda d: types.FunctionType(compile("global a\na = 2", "f", "exec"), d)(),
    "import": lambda d: exec("import gc as b", d),
    "PyDict_SetItem": lambda d: call_c("PyDict_SetItem", d, "a", 2),
    "PyDict_SetItemString": lambda d: call_c("PyDict_SetItemString", d, b"a", 2),
    "PyDict_DelItem": lambda d: call_c("PyDict_DelItem", d, "a"),
    "PyDict_Clear": lambda d: call_c("PyDict_Clear", d),
    "PyDict_Merge": lambda d: call_c("PyDict_Merge", d, {"a": 2}, ctypes.c_int(1)),
    "PyDict_MergeFromSeq2": lambda d: call_c("PyDict_MergeFromSeq2", d, [("a", 2)], ctypes.c_int(1)),
    "PyDict_SetDefault": lambda d: call_c("PyDict_SetDefault", d, "b", 2),
}


@pytest.mark.parametrize("make", [dict, Sub, collections.OrderedDict, collections.defaultdict], ids=lambda make: make.__name__)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_change_of_a_dict_is_noticed(change: Callable[[dict[str, Any]], Any], make: Callable[..., dict[str, Any]]) -> None:
    target = make(a=1)
    built = settled(of_item(), target)
    change(target)
    assert not agrees(built, target)
    target.clear()
    target["a"] = 1
    settled(built, target)
    change(target)
    assert not agrees(built, target)


@pytest.mark.parametrize("fill", [{"a": 1}, {"a": 1, 5: 2}, {"b": 1}, {}], ids=["copied", "copied with another key", "of another key", "empty"])
def test_an_empty_dict_that_takes_all_of_another(fill: dict[Any, Any]) -> None:
    target: dict[Any, Any] = {}
    source = slot(Root())
    built = build([KeyAbsent(source, HERE, "a"), KeyAbsent(source, HERE, "b")], [], [])
    settled(built, target)
    target.update(fill)
    assert agrees(built, target) == (not fill)


# ---- attributes ----


class Plain:
    def __init__(self) -> None:
        self.a = 1


class WithSlot:
    __slots__ = ("__dict__", "other")

    def __init__(self) -> None:
        self.a = 1


def of_attribute(cls: type) -> BuiltGuards:
    source = slot(Root())
    attributes = source.child(InstanceDict)
    guards: list[Guard] = [TypeIs(source, HERE, cls), Equals(attributes.child(Item, "a"), HERE, 1), KeyAbsent(attributes, HERE, "b")]
    return build(guards, [attributes.child(Item, "a")], [])


def store(target: Any, value: Any) -> None:
    target.a = value


def add(target: Any, value: Any) -> None:
    target.b = value


def delete(target: Any) -> None:
    del target.a


def outgrow(target: Any) -> None:
    for number in range(60):
        setattr(target, f"more{number}", number)
    target.a = 2


ATTRIBUTES: dict[str, Callable[[Any], Any]] = {
    "stored": lambda o: store(o, 2),
    "stored as another object": lambda o: (store(o, 5.0), store(o, True)),
    "added": lambda o: add(o, 2),
    "deleted": delete,
    "deleted and stored": lambda o: (delete(o), store(o, 3)),
    "stored in the dict": lambda o: vars(o).__setitem__("a", 2),
    "deleted from the dict": lambda o: vars(o).__delitem__("a"),
    "dict cleared": lambda o: vars(o).clear(),
    "dict updated": lambda o: vars(o).update(a=2),
    "dict replaced": lambda o: setattr(o, "__dict__", {"a": 2}),
    "dict replaced by its like, and changed": lambda o: (setattr(o, "__dict__", dict(vars(o))), store(o, 2)),
    "dict replaced by itself, and changed": lambda o: (setattr(o, "__dict__", vars(o)), store(o, 2)),
    "dict of another object": lambda o: setattr(o, "__dict__", vars(other := type(o)()) and (store(other, 2), vars(other))[1]),
    "dict deleted": lambda o: delattr(o, "__dict__"),
    "outgrown": outgrow,
    "by setattr": lambda o: setattr(o, "a", 2),
    "by object": lambda o: object.__setattr__(o, "a", 2),
}


@pytest.mark.parametrize("before", ["never seen", "seen", "held"])
@pytest.mark.parametrize("make", [Plain, WithSlot], ids=lambda make: make.__name__)
@pytest.mark.parametrize("change", ATTRIBUTES.values(), ids=ATTRIBUTES)
def test_change_of_an_attribute_is_noticed(change: Callable[[Any], Any], make: type, before: str) -> None:
    """With stores that CPython has specialised, for objects whose dict was asked for before, or wasn't."""
    for _ in range(100):
        warm = make()
        store(warm, 1)
        add(warm, 1)
        delete(warm)
    target = make()
    held = vars(target) if before == "held" else None
    if before == "seen":
        vars(target)
    built = settled(of_attribute(make), target)
    change(target)
    assert not agrees(built, target)
    assert held is None or type(held) is dict


def test_attributes_stored_again_and_again() -> None:
    target = Plain()
    built = settled(of_attribute(Plain), target)
    for number in range(300):
        store(target, number)
        assert (matched(built, target) is not None) == (number == 1), number
    store(target, 1)
    settled(built, target)


def test_dict_that_shares_its_values_with_an_object() -> None:
    """It is reached by another path than by its object."""
    target = Plain()
    shared = vars(target)
    built = of_item()
    for number in range(200):
        value = number % 3
        store(target, value)
        for _ in range(3):
            assert agrees(built, shared) == (value == 1)
    del target
    for _ in range(4):
        assert agrees(built, shared) == (value == 1)


def test_dict_outlives_its_object() -> None:
    target = Plain()
    shared = vars(target)
    built = settled(of_attribute(Plain), target)
    own = of_item()
    assert agrees(own, shared)
    del target
    gc.collect()
    for value in (2, 1, 3, 1):
        shared["a"] = value
        for _ in range(3):
            assert agrees(own, shared) == (value == 1)
    assert matched(built, Plain()) is not None


# ---- classes ----


def test_class_that_has_changed_too_often_for_another_version() -> None:
    """CPython gives a class about a thousand versions."""

    class Changing:
        a = 1

    attribute = Root().child(Pinned, Changing).child(TypeAttr, "a")
    built = build([Equals(attribute, HERE, 1)], [], [])
    for number in range(2_500):
        Changing.a = number
        for _ in range(2):
            assert (matched(built) is not None) == (number == 1), number


# ---- the lives of words ----


def test_words_of_dicts_that_are_gone_are_used_again_and_memory_does_not_grow() -> None:
    built = of_item()

    def run(times: int) -> None:
        for number in range(times):
            held = [{"a": 1}, {"a": 2}, {"a": 1, "b": 2}]
            for each in held:
                assert (matched(built, each) is not None) == (each == {"a": 1}), number

    run(20_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run(100_000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4_000  # KiB


def test_many_dicts_that_come_and_go_in_any_order() -> None:
    built = of_item()
    alive: list[dict[str, int]] = []
    for number in range(3_000):
        alive.append({"a": 1 + number % 2})
        if number % 3 == 1:
            del alive[(number * 7919) % len(alive)]
        one = alive[(number * 104729) % len(alive)]
        assert (matched(built, one) is not None) == (one["a"] == 1)
        one["a"] = 3 - one["a"]
        assert (matched(built, one) is not None) == (one["a"] == 1)
    for one in alive:
        for _ in range(3):
            assert (matched(built, one) is not None) == (one["a"] == 1)


TAKEN = """
import ctypes
taken = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(lambda *event: 0)
def take():
    try:
        while ctypes.pythonapi.PyDict_AddWatcher(taken) >= 0:
            pass
    except RuntimeError:
        pass
"""
GUARDS = """
import test_guards_versions as tests
from guarding import agrees, matched
def noticed():
    built, target = tests.of_item(), {"a": 1}
    for value in (1, 1, 1, 2, 1, 1, 3, 1):
        target["a"] = value
        for _ in range(3):
            assert agrees(built, target) == (value == 1), value
    return built.tree.visited
"""
HAS_WATCHERS = hasattr(C_API, "PyDict_AddWatcher")


@pytest.mark.skipif(not HAS_WATCHERS, reason="Python 3.11 has no dict watchers")
def test_where_others_have_taken_all_watchers() -> None:
    """Guards are as right as ever, and dicts that a program is watched by count as changed at each call."""
    program = f"""import framejit, torch
{TAKEN}
{GUARDS}
take()
noticed()
function = framejit.compile(lambda x, options: x + options["n"], backend="eager")
for n in (1, 1, 2, 1, 3):
    assert function(torch.zeros(1), {{"n": n}}).item() == n
assert len(function.entries) > 1
with torch.compiler.set_stance("force_eager"):
    hits = [entry.hits for entry in function.entries]
    assert function(torch.zeros(1), {{"n": 1}}).item() == 1
    assert hits == [entry.hits for entry in function.entries]
function(torch.zeros(1), {{"n": 1}})
assert hits != [entry.hits for entry in function.entries]
print("ended")
"""
    assert run_python(program) == "ended\n"


def test_at_the_interpreters_end() -> None:
    """Code that runs after the dict watcher has been given back still gets right answers from guards."""
    program = f"""{GUARDS}
import sys
kept = tests.of_item(), {{"a": 1}}
assert noticed() <= 1
for _ in range(4):
    assert agrees(*kept)
class AtEnd:
    def __del__(self):
        built, target = kept
        assert built.tree.match((target,), None) is not None
        target["a"] = 2
        assert built.tree.match((target,), None) is None
        print("ended")
sys.modules["at_end"] = AtEnd()
"""
    assert run_python(program) == "ended\n"
