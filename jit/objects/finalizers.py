"""Values whose end a program can see: a weak reference to them is empty then, or something runs. Which they are, and which a resumed frame holds."""

from __future__ import annotations

import array
import collections
import gc
import types
from collections.abc import Iterator
from typing import Any

import torch

from framejit import breaks, classes
from framejit.guards.kinds import ValueIs
from framejit.guards.source import MISSING, Source
from framejit.objects.object import VM, Object, settle
from framejit.objects.tupleobject import TupleObject

WEAKLY_HELD = frozenset(map(id, {
    *(set, frozenset, collections.deque, collections.OrderedDict, array.array),
    *(types.FunctionType, types.MethodType, types.BuiltinMethodType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType),
    types.CellType, memoryview,
}))  # fmt: skip
"""Types of C that programs make weak references to; cells, which functions store such values to; and views, as long as one of which lives, what
it views can't change its size. By identity, as the other sets of types here:
a class that they are asked for may have a metaclass with a `__hash__` of the program's."""
NUMBERS_AND_TEXTS = frozenset(map(id, (int, float, complex, bool, str, bytes)))
CONTAINERS = frozenset(map(id, (tuple, list, dict, types.MappingProxyType, types.CellType, types.SimpleNamespace)))
MOST = 1_000
"""Where there are more values than so many, a container is taken to hold one whose end shows."""


def is_instance(cls: type) -> bool:
    """Whether values of a type are instances of a class made by a class statement, and no tensors, modules and classes."""
    return bool(classes.flags(cls) & classes.HEAP_TYPE) and not issubclass(cls, (torch.Tensor, torch.nn.Module, type))


def ends_visibly(cls: type) -> bool:
    """Whether the end of a type's values may show: of instances of the program's classes, and of what it makes weak references to."""
    return is_instance(cls) or id(cls) in WEAKLY_HELD


def ends_silently(cls: type) -> bool:
    """Whether the end of a type's values is nobody's business: of numbers, texts, and tensors, which graphs let go of early."""
    return id(cls) in NUMBERS_AND_TEXTS or issubclass(cls, torch.Tensor)


def outlives_reads(value: Object) -> bool:
    """Whether a state takes a variable along that is not read any more, as the frame would: what has come from outside and doesn't end
    silently, and what the trace has made where the end of something in it may show."""
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
        if len(known) > MOST or (not is_constant and ends_visibly(item.cls)):
            return True
        waiting += item.referents()
    return False


def held(value: Object) -> Iterator[Source]:
    """Where a part of a resumed state is that the frame's code holds until it ends: what doesn't end silently."""
    value = settle(value)
    if isinstance(value, TupleObject) and value.cls is tuple and value.elements is not None:
        for element in value.elements:
            yield from held(element)
    elif value.source is not None and not ends_silently(value.cls):
        yield value.source


def holds_visible_end(value: Any) -> bool:
    """Whether the end of a value, or of something that it holds, may show."""
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
    """Whether it may be guarded which object a value from outside is: such a guard keeps alive what can't be referenced weakly, whose end mustn't show then."""
    return bool(classes.weakrefoffset(obj.cls)) or not holds_visible_end(obj.value)


def guard_address(vm: VM, obj: Object, asked: str) -> None:
    """Guard which object a value from outside is. Breaks where that can't be."""
    if not has_address(obj):
        vm.unsupported(breaks.UnsupportedCall(f"{asked} of a {obj.type_name} whose end shows, and which can't be referenced weakly"))
    assert obj.source is not None
    vm.guard(ValueIs, obj.source, obj.value)
