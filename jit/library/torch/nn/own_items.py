"""Objects made by the trace of which each layer has its own, at the layer's index in a list: its part of a cache.

    cache.layers[self.layer_idx].update(keys, values)       # self.layer_idx is 0 in the first layer's call, which is traced, and 1 in the next one's

A call may take such an object out of the list by that index, read attributes of it that are constants, and set attributes. The call of another layer is like it
if the list has an object of the same class, with the same attributes, at the other layer's index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framejit.guards.kinds import exact_key
from framejit.guards.source import Source
from framejit.objects.core.object import Object, settle
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.types.constobject import ConstObject
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.pickeditems import Entries, ListRead, PickedItem, attributes_of
from framejit.objects.types.userobject import UserObject
from framejit.quick_dataclass import dataclass
from framejit.trail import FieldFilled, Trail


@dataclass(frozen=True, slots=True, eq=False)
class OwnItem:
    """An object that a call has taken out of a list. `source`: that of the index; `before`, `after`: its attributes at first, and at the end of the call."""

    items: ListObject
    source: Source
    item: UserObject
    before: Entries
    after: Entries

    def counterpart(self, source: Source, index: Any) -> PickedItem | None:
        """The object at another index, whose path is `source`, as it would be taken out of the list. None if it isn't like this one before the call."""
        elements = self.items.elements
        assert elements is not None
        if type(index) is not int or not -len(elements) <= index < len(elements):
            return None
        other = settle(elements[index])
        attributes = attributes_of(other)
        if attributes is None or not isinstance(other, UserObject) or other.cls is not self.item.cls or list(attributes.entries) != list(self.before):
            return None
        if not all(are_alike(value, attributes.entries[name][1]) for name, (_, value) in self.before.items()):
            return None
        return PickedItem(self.items, source, other, attributes, dict(attributes.entries))

    def changes(self) -> list[tuple[Any, Object, Object]]:
        """The attributes that the call has set: each as hash key, key and value."""
        return [(name, key, value) for name, (key, value) in self.after.items() if name not in self.before or self.before[name][1] is not value]


def are_alike(one: Object, other: Object) -> bool:
    """Return whether two attributes hold the same constant."""
    one, other = settle(one), settle(other)
    if one is other:
        return isinstance(one, ConstObject)
    constants = [value for value in (one, other) if type(value) in (ConstObject, NumberObject) and value.source is None and value.is_known()]
    return len(constants) == 2 and exact_key(one.value) == exact_key(other.value)


def own_items(trail: Trail, start: int, lists: Sequence[ListObject]) -> list[OwnItem] | None:
    """The objects that a call, recorded from a position of the trail on, has taken out of lists. None if the call depends on their indices, or on their
    attributes, in ways that can't be compared with another call's."""
    if not lists:
        return []
    found: list[OwnItem] = []
    known: set[Source | None] = set()
    ids = set(map(id, lists))
    for record in trail.since(start):
        if type(record) is FieldFilled and record.field == "pending":
            known.add(record.owner.source)
        picked = record.owner
        if isinstance(picked, ListRead) and id(picked.items) in ids:
            if not isinstance(picked, PickedItem) or not isinstance(picked.items, ListObject) or attributes_of(picked.item) is not picked.attributes:
                return None
            first = next((own.before for own in found if own.item is picked.item), picked.before)
            after = dict(picked.attributes.entries)
            own = OwnItem(picked.items, picked.source, picked.item, first, after)
            if list(after)[: len(first)] != list(first) or not all(are_alike(value, value) for _, value in first.values()):
                return None
            if any(not isinstance(settle(value), (ConstObject, TensorObject)) for _, _, value in own.changes()):
                return None
            found.append(own)
    return None if any(own.source in known for own in found) else found
