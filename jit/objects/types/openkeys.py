"""Lookups by keys from outside that nothing has asked for, in containers from outside: what is found is guarded, and not the key.

So blocks that are compiled one by one, each with an index or a name of its own (`cache.k[self.layer]`), share one entry.
"""

from __future__ import annotations

from typing import Any

from framejit.guards.container_sources import IndexLookedUp, ItemLookedUp
from framejit.guards.kinds import IsMissing, IsPresent
from framejit.guards.source import MISSING, Item, Local, Source
from framejit.objects.core.object import VM, Object
from framejit.objects.types.constobject import ConstObject

TABLES_OF_MODULES = ("_modules", "_parameters", "_buffers")


def comes_with_call(source: Source | None) -> bool:
    """Return whether a path begins at an argument, and leads through nothing that is made or read from data in each walk."""
    while source is not None and not isinstance(source, Local):
        if source.is_new_each_time or source.is_data:
            return False
        source = source.base
    return source is not None


def is_open(key: Object) -> bool:
    """Return whether a value is an exact int or str that came with the call, and that no guard compares yet. Guards nothing."""
    return isinstance(key, ConstObject) and key.pending and key.cls in (int, str) and comes_with_call(key.source)


def item_at_open_key(vm: VM, source: Source, mapping: Any, key: Object) -> Object | None | Any:
    """The value of an open key in a dict from outside that the trace hasn't changed: an Object, or None if the key is missing; what was found is guarded.

    MISSING if the key must be known: the dict doesn't come with the call, or is a module's own table, whose keys are names of its parts.
    """
    if not comes_with_call(source) or (isinstance(source, Item) and source.payload in TABLES_OF_MODULES):
        return MISSING
    item = source.child(ItemLookedUp, key.source)
    found = dict.get(mapping, key.value, MISSING)
    if found is MISSING:
        vm.guard(IsMissing, item)
        return None
    return vm.observe(vm.wrap(found, item))  # observed at once: if the value were never read, nothing else would guard that the key is there


def item_at_open_index(vm: VM, sequence: Object, index: Object) -> Object | None:
    """The item at an open index of an exact list or tuple from outside whose items the trace hasn't changed, guarded to be there. None if the index must be
    known, or no item is there."""
    source = sequence.source
    if not is_open(index) or not comes_with_call(source) or not 0 <= index.value < len(sequence.value):
        return None
    assert source is not None
    item = source.child(IndexLookedUp, index.source)
    vm.guard(IsPresent, item)
    return vm.wrap(sequence.value[index.value], item)
