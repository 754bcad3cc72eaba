"""Values whose end a program can see: something of its own runs when the last reference to them goes."""

from __future__ import annotations

import collections
import gc
import itertools
import types
from collections.abc import Iterable
from typing import Any

import torch

from framejit.guards.source import MISSING
from framejit.objects.exceptions import ExceptionObject
from framejit.objects.genobject import GeneratorObject
from framejit.objects.object import Object, settle

EMPTY: tuple[Any, ...] = ((), [], {}, {}.values(), {}.items(), set(), collections.deque())
CONTAINERS = frozenset({
    *(tuple, list, dict, set, frozenset, collections.deque, collections.OrderedDict, collections.defaultdict),
    *(types.MappingProxyType, types.CellType, types.SimpleNamespace, types.TracebackType, types.FrameType),
    *(enumerate, filter, map, zip, reversed, itertools.chain, itertools.islice, itertools.cycle, itertools.starmap),
    *(type(iter(empty)) for empty in EMPTY),
})  # fmt: skip
"""Types of values that let go of what they hold when they go, and which are looked into."""
METHODS = frozenset({types.MethodType, types.BuiltinMethodType, types.MethodWrapperType})
PLAIN = (torch.Tensor, torch.nn.Module, type)
"""Classes of values, and their subclasses, that hold much and hardly ever something that runs at its end."""
HEAP_TYPE = 1 << 9
MOST, MOST_DEEP = 10_000, 1_000
"""In what holds more values than so many, one is taken to be a finalizer."""


def runs_at_end(value: Any) -> bool:
    """Whether it is a frame that waits, whose `finally` and `with` blocks are left when it goes, or has a `__del__`."""
    cls = type(value)
    if cls is types.GeneratorType:
        return value.gi_frame is not None
    if cls is types.CoroutineType:
        return value.cr_frame is not None
    if cls is types.AsyncGeneratorType:
        return value.ag_frame is not None
    return isinstance(getattr(cls, "__del__", None), types.FunctionType)


def inside(value: Any, deep: bool) -> Iterable[Any]:
    """What goes with a value, where that is looked into: containers, exceptions with their frames; `deep`, also methods, functions, instances."""
    cls = type(value)
    if cls in CONTAINERS or issubclass(cls, BaseException):
        return gc.get_referents(value)
    if deep and cls is types.FunctionType:
        return value.__dict__, *(value.__closure__ or ())
    if deep and cls in METHODS:
        return (value.__self__,)
    if deep and cls.__flags__ & HEAP_TYPE and not issubclass(cls, PLAIN):
        return gc.get_referents(value)
    return ()


def finalizers_in(value: Any, deep: bool = False) -> dict[int, Any]:
    """By identity, the values that run something at their end: this one, or those in it."""
    most = MOST_DEEP if deep else MOST
    found: dict[int, Any] = {}
    known = {id(value)}
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if runs_at_end(item):
            found[id(item)] = item
            continue
        for part in inside(item, deep):
            if id(part) not in known:
                known.add(id(part))
                waiting.append(part)
            if len(known) > most:
                return {id(value): value}
    return found


def ends_visibly(value: Object) -> bool:
    """Whether the end of a value in a frame of the trace can be seen: its own, or that of something it holds.

    A generator that waits counts before it has started, too: where the trace stops, its next step may run natively.
    """
    known: set[int] = set()
    waiting = [value]
    while waiting:
        item = settle(waiting.pop())
        if id(item) in known:
            continue
        known.add(id(item))
        if len(known) > MOST:
            return True
        if isinstance(item, GeneratorObject):
            if item.vm.waits(item):
                return True
        elif item.value is not MISSING and finalizers_in(item.value, deep=True):
            return True
        waiting += item.referents()
        if isinstance(item, ExceptionObject):
            waiting += (variable for variables in item.variables.values() for variable in variables.values())
        attrs = getattr(item, "attrs", None)  # of one from outside, no referent: stores to them are effects of their own
        if attrs is not None:
            waiting.append(attrs)
    return False
