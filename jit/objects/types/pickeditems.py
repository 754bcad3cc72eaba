"""Items that calls of modules take out of lists that the trace has made, by indices from outside, as a layer takes its part of a cache.

    keys, values = cache.layers[self.layer_idx].update(keys, values)

What is recorded of one layer's call then holds for another layer, whose index leads to another item. So the index is guarded, but the trace doesn't count it as
known: if anything else asks for its value, that shows on the trail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framejit.guards.kinds import Equals
from framejit.guards.source import Source
from framejit.objects.core.object import VM, Object, settle
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.types.instancedict import InstanceDictObject
from framejit.objects.types.userobject import UserObject
from framejit.quick_dataclass import dataclass

Entries = dict[Any, tuple[Object, Object]]


@dataclass(frozen=True, slots=True, eq=False)
class ListRead:
    """Items of a list were read, which the trail notes."""

    items: Object

    def note(self, vm: VM) -> None:
        vm.trail.learned(self, nothing)


@dataclass(frozen=True, slots=True, eq=False)
class PickedItem(ListRead):
    """One item was taken out of a list, by an index that the trace doesn't know. `source`: the index's; `attributes`, `before`: the item's `__dict__`, and its
    entries then."""

    source: Source
    item: UserObject
    attributes: InstanceDictObject
    before: Entries


def nothing() -> None:
    """Undo a note of the trail, which has changed nothing."""


def picked_item(vm: VM, items: Object, elements: Sequence[Object], key: Object) -> Object | None:
    """The item of a list with these elements at an index from outside that the trace doesn't know, and that is guarded. None if the list has to find the item.
    Notes either."""
    item = None
    is_index = isinstance(key, NumberObject) and key.cls is int and key.pending and key.source is not None and key.sym is None
    if is_index and -len(elements) <= key.value < len(elements):
        item = settle(elements[key.value])
    attributes = None if item is None else attributes_of(item)
    if attributes is None or not isinstance(item, UserObject):
        ListRead(items).note(vm)
        return None
    assert key.source is not None
    vm.guard(Equals, key.source, key.value)
    PickedItem(items, key.source, item, attributes, dict(attributes.entries)).note(vm)
    return item


def attributes_of(item: Object) -> InstanceDictObject | None:
    """The `__dict__` of an instance that the trace has made and that holds nothing besides it; None for other values."""
    if type(item) is not UserObject or item.source is not None or item.slots:
        return None
    attributes = item.attrs
    return attributes if isinstance(attributes, InstanceDictObject) and attributes.owner is item else None
