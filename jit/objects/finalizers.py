"""Values whose end a program can see: something of its own runs when the last reference to them goes."""

from __future__ import annotations

import collections
import gc
import itertools
from types import AsyncGeneratorType, CoroutineType, FunctionType, GeneratorType, MappingProxyType
from typing import Any

from framejit.objects.genobject import GeneratorObject
from framejit.objects.object import Object

EMPTY: tuple[Any, ...] = ((), [], {}, {}.values(), {}.items(), set(), collections.deque())
CONTAINERS = frozenset({
    *(tuple, list, dict, set, frozenset, collections.deque, collections.OrderedDict, collections.defaultdict, MappingProxyType),
    *(enumerate, filter, map, zip, reversed, itertools.chain, itertools.islice, itertools.cycle, itertools.starmap),
    *(type(iter(empty)) for empty in EMPTY),
})  # fmt: skip
"""Types of values that let go of what they hold when they go, and which are looked into."""
MOST = 10_000
"""In a container that holds more than so many values, one is taken to be a finalizer."""


def runs_at_end(value: Any) -> bool:
    """Whether it is a frame that waits, whose `finally` and `with` blocks are left when it goes, or has a `__del__`."""
    cls = type(value)
    if cls is GeneratorType:
        return value.gi_frame is not None
    if cls is CoroutineType:
        return value.cr_frame is not None
    if cls is AsyncGeneratorType:
        return value.ag_frame is not None
    return isinstance(getattr(cls, "__del__", None), FunctionType)


def finalizers_in(value: Any) -> dict[int, Any]:
    """By identity, the values that run something at their end: this one, or those in it."""
    if type(value) not in CONTAINERS:
        return {id(value): value} if runs_at_end(value) else {}
    found: dict[int, Any] = {}
    known = {id(value)}
    waiting = [value]
    while waiting:
        for item in gc.get_referents(waiting.pop()):
            if id(item) in known:
                continue
            known.add(id(item))
            if len(known) > MOST:
                return {id(value): value}
            if type(item) in CONTAINERS:
                waiting.append(item)
            elif runs_at_end(item):
                found[id(item)] = item
    return found


def ends_visibly(value: Object) -> bool:
    """Whether the end of a value in a frame of the trace can be seen."""
    if isinstance(value, GeneratorObject):
        return value.vm.is_suspended(value)
    return bool(finalizers_in(value.value))
