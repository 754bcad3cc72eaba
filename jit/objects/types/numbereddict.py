"""Dicts whose keys are arbitrary numbers, such as a module's hooks by the numbers of their handles: they are iterated over by position.

    m.register_forward_hook(f)      # m._forward_hooks is {7: f}; for the next module of the kind, {8: f}

While such a dict is only iterated over, its guard is on the number of items and on their order, not on the keys.
"""

from __future__ import annotations

from collections import OrderedDict

from framejit import breaks
from framejit.guards.container_sources import DictKey, DictValueAt
from framejit.guards.kinds import InOrderOfDict
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.types.dictkeys import is_in_order
from framejit.objects.types.dictobject import ITERATOR_TYPES, DictObject, Entry, dict_iterator_at, view_item
from framejit.objects.types.iterobject import IteratorObject


def go_by_place(vm: VM, mapping: Object | None) -> None:
    """From here on, iterate over an OrderedDict from outside by position, if its keys are ints and it hasn't been reordered."""
    if not isinstance(mapping, DictObject) or mapping.by_place or mapping.source is None or mapping.cls is not OrderedDict:
        return
    keys = list(dict.__iter__(mapping.value))
    if keys and all(type(key) is int for key in keys) and is_in_order(mapping.value) and list(OrderedDict.__iter__(mapping.value)) == keys:
        vm.trail.fill(mapping, "by_place", True)


def goes_by_place(mapping: DictObject) -> bool:
    """Return whether a dict is iterated over by position: nothing has changed it, and its keys aren't guarded."""
    return mapping.by_place and not mapping.complete and is_as_it_was(mapping) and dict.__len__(mapping.value) > 0


def is_as_it_was(mapping: DictObject) -> bool:
    """Return whether the trace has changed nothing in a dict from outside."""
    return not (mapping.stores or mapping.removed or mapping.rewritten or mapping.plain_order is not None)


def length(vm: VM, mapping: DictObject) -> int:
    """The number of items."""
    if not goes_by_place(mapping):
        return len(mapping.stored(vm))
    assert mapping.source is not None
    vm.guard(InOrderOfDict, mapping.source, dict.__len__(mapping.value))
    return dict.__len__(mapping.value)


class PlaceIterator(IteratorObject):
    """An iterator over the keys, values or items of a dict that goes by position."""

    __slots__ = ("mapping", "kind", "entries", "index")

    def __init__(self, vm: VM, mapping: DictObject, kind: str) -> None:
        super().__init__(ITERATOR_TYPES[OrderedDict, kind, False])
        source = mapping.source
        assert source is not None
        vm.guard(InOrderOfDict, source, dict.__len__(mapping.value))
        self.mapping = mapping
        self.kind = kind
        self.entries: list[Entry] = [
            (NumberObject(key, source.child(DictKey, place), pending=True), vm.wrap(value, source.child(DictValueAt, place)))
            for place, (key, value) in enumerate(dict.items(mapping.value))
        ]
        self.index = 0

    def next(self, vm: VM) -> Object | None:
        if self.index == len(self.entries):
            return None
        if not is_as_it_was(self.mapping):
            vm.unsupported(breaks.UnsupportedOperation("a step of an iterator over hooks that have changed"))
        vm.trail.set(self, "index", self.index + 1)
        return view_item(vm, self.kind, self.entries[self.index - 1])

    def length_hint(self, vm: VM) -> int | None:
        return len(self.entries) - self.index

    def reconstruct(self, cg: Codegen) -> None:
        if not is_as_it_was(self.mapping):
            cg.unsupported(breaks.CannotReconstruct("an iterator over hooks that have changed since it was made"))
        cg.load(self.mapping)
        cg.load_const(OrderedDict)
        cg.load_const(self.kind)
        cg.load_const(False)
        cg.load_const(self.index)
        cg.call_const(dict_iterator_at, 5)

    def awaits(self) -> Object | None:
        return self.mapping

    def referents(self) -> list[Object]:
        return [self.mapping]
