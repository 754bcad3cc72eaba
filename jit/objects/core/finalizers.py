"""Finds the values whose end a program can observe (a weak reference becomes empty, or a finalizer runs), and those that a resumed frame keeps alive."""

from __future__ import annotations

import array
import collections
import gc
import types
from collections.abc import Iterator
from typing import Any

import torch

from framejit import breaks
from framejit.guards.kinds import AddressIs
from framejit.guards.source import MISSING
from framejit.objects.core.object import VM, Object, settle
from framejit.objects.types.tupleobject import TupleObject
from framejit.program import classes

WEAKLY_HELD = frozenset(map(id, {
    *(set, frozenset, collections.deque, collections.OrderedDict, array.array),
    *(types.FunctionType, types.MethodType, types.BuiltinMethodType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType),
    types.CellType, memoryview,
}))  # fmt: skip
"""Types in C that programs make weak references to; cells, since functions store such values in them; and views, because the viewed object can't
change its size while one of them is alive. The set is by identity, as other sets of types here:
a class that is looked up in it may have a metaclass with a `__hash__` of the program's."""
NUMBERS_AND_TEXTS = frozenset(map(id, (int, float, complex, bool, str, bytes)))
CONTAINERS = frozenset(map(id, (tuple, list, dict, types.MappingProxyType, types.CellType, types.SimpleNamespace)))
MOST = 1_000
"""A container with more values than this is assumed to hold one whose end is visible."""


def is_instance(cls: type) -> bool:
    """Return whether values of a type are instances of a class made by a class statement, and no tensors, modules and classes."""
    return bool(classes.flags(cls) & classes.HEAP_TYPE) and not issubclass(cls, (torch.Tensor, torch.nn.Module, type))


def ends_visibly(cls: type) -> bool:
    """Return whether the end of a type's values may be visible: for instances of the program's classes, and for types that it makes weak references to."""
    return is_instance(cls) or id(cls) in WEAKLY_HELD


def ends_silently(cls: type) -> bool:
    """Return whether the end of a type's values is never visible: for numbers, texts, and tensors, which graphs free early."""
    return id(cls) in NUMBERS_AND_TEXTS or issubclass(cls, torch.Tensor)


def outlives_reads(value: Object) -> bool:
    """Return whether a resumed state keeps a variable that is not read any more, as the frame would: a value from outside whose end isn't silent,
    or one made by the trace that contains something whose end may be visible."""
    value = settle(value)
    if value.source is not None:
        return not ends_silently(value.cls)
    known: set[int] = set()
    waiting = [value]
    while waiting:
        item = settle(waiting.pop())
        if id(item) in known:
            continue
        known.add(id(item))
        is_constant = item.source is None and item.value is not MISSING
        if len(known) > MOST or item.is_stand_in or (not is_constant and ends_visibly(item.cls)):
            return True
        waiting += item.referents()
    return False


def held(value: Object) -> Iterator[Object]:
    """The parts of a resumed state, values from outside, that the frame's code keeps alive until it ends: those whose end isn't silent."""
    value = settle(value)
    if isinstance(value, TupleObject) and value.cls is tuple and value.elements is not None:
        for element in value.elements:
            yield from held(element)
    elif value.source is not None and not ends_silently(value.cls):
        yield value


def holds_visible_end(value: Any) -> bool:
    """Return whether the end of a value, or of something that it holds, may be visible."""
    known = {id(value)}
    waiting = [value]
    while waiting:
        item = waiting.pop()
        cls = type(item)
        if classes.lookup(cls, "__del__") is not None or (ends_visibly(cls) and classes.weakrefoffset(cls)) or len(known) > MOST:
            return True
        if id(cls) in CONTAINERS or is_instance(cls):
            parts = [part for part in gc.get_referents(item) if id(part) not in known and not isinstance(part, type)]
            known.update(map(id, parts))
            waiting += parts
    return False


def has_address(obj: Object) -> bool:
    """Return whether the identity of a value from outside may be guarded. Such a guard keeps a value alive that can't be weakly referenced, so its end must not
    be visible then."""
    return bool(classes.weakrefoffset(obj.cls)) or not holds_visible_end(obj.value)


def guard_address(vm: VM, obj: Object, asked: str) -> None:
    """Guard the identity of a value from outside. Breaks if that can't be guarded."""
    if not has_address(obj):
        vm.unsupported(breaks.UnsupportedCall(f"{asked} of a {obj.type_name} whose end shows, and which can't be referenced weakly"))
    assert obj.source is not None
    vm.guards.rest_on_process("the address of an object")
    vm.guard(AddressIs, obj.source, obj.value)
