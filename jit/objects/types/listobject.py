"""Lists: one from outside is an unknown original plus appended items until its contents are needed; then it is a list of lazily wrapped items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from framejit.guards.kinds import Length
from framejit.guards.source import MISSING, Index, Path, Source
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Codegen, Namespace, NotConstant, Object, settle, unhashable
from framejit.objects.core.registry import wraps
from framejit.objects.types.constobject import c_new
from framejit.objects.types.dictobject import attr_values, fill_attrs, has_attrs, instance_dict
from framejit.objects.types.iterobject import SequenceIterator, list_iterator
from framejit.objects.types.lengths import varying_length
from framejit.objects.types.openkeys import item_at_open_index
from framejit.objects.types.pickeditems import picked_item
from framejit.objects.types.tupleobject import item_at, present_item, reject_own_items


class ListObject(Object):
    """A list or an instance of a subclass. Until one from outside is opened, `elements` is None and `appended` holds what was appended.

    `notes_picks`: whether the trail notes which items are taken out of it (pickeditems.py).
    """

    __slots__ = ("elements", "appended", "original", "notes_picks")

    def __init__(self, elements: list[Object] | None, cls: type = list, source: Source | None = None, value: Any = MISSING) -> None:
        self.cls = cls
        self.source = source
        self.value = value
        self.attrs = None
        self.elements = elements
        self.appended: list[Object] = []
        self.original: list[Object] = []
        self.notes_picks = False

    def items(self, vm: VM) -> list[Object]:
        """The elements, unobserved; guards the length of a list from outside. The caller must not change the list."""
        elements = self.elements
        if elements is None:
            source = self.source
            assert source is not None
            values = list(list.__iter__(self.value))
            abstract.reject_many(vm, self, len(values))
            vm.guard(Length, source, len(values))
            original = [vm.wrap(value, source.child(Index, i)) for i, value in enumerate(values)]
            elements = original + self.appended
            vm.trail.fill(self, "original", original)
            vm.trail.fill(self, "elements", elements)
        return elements

    def append(self, vm: VM, item: Object) -> None:
        """list.append; guards nothing."""
        target = self.appended if self.elements is None else self.elements
        target.append(item)
        vm.trail.changed(self, target.pop)
        if self.source is not None:
            vm.effects.mutated(self)

    def extend(self, vm: VM, items: list[Object]) -> None:
        """Append all items; guards nothing."""
        for item in items:
            self.append(vm, item)

    def replace(self, vm: VM, elements: list[Object]) -> None:
        """Replace the list's whole contents."""
        self.items(vm)
        vm.trail.set(self, "elements", elements)
        if self.source is not None:
            vm.effects.mutated(self)

    def set_at(self, vm: VM, index: int, item: Object) -> None:
        """`self[index] = item` for an index that is in range and not negative."""
        elements = self.items(vm)
        vm.trail.changed(self, elements.__setitem__, index, elements[index])
        elements[index] = item
        if self.source is not None:
            vm.effects.mutated(self)

    def pop_last(self, vm: VM) -> Object:
        """Take the last item of a list that is not empty."""
        elements = self.items(vm)
        item = elements.pop()
        vm.trail.changed(self, elements.append, item)
        if self.source is not None:
            vm.effects.mutated(self)
        return item

    def replaced(self) -> list[tuple[Source, Object]]:
        return replaced_items(self.source, Index, self.original, self.elements)

    def instance_dict(self, vm: VM) -> Namespace | None:
        return None if self.cls is list else instance_dict(vm, self)

    def hash_key(self, vm: VM) -> Any:
        if self.cls.__hash__ is None:
            unhashable(vm, self.type_name)
        return self.identity_key(vm)

    def iter(self, vm: VM) -> Object:
        return SequenceIterator(self, list_iterator) if self.cls is list else Object.iter(self, vm)

    def truth(self, vm: VM) -> bool:
        if self.cls is not list:
            return Object.truth(self, vm)
        return self.peek(vm, 0) is not None or bool(self.items(vm))

    def length(self, vm: VM) -> Object:
        if self.cls is not list:
            return Object.length(self, vm)
        return self.varying_length(vm) or vm.const(len(self.items(vm)))

    def varying_length(self, vm: VM) -> Object | None:
        """The length of a list from outside whose contents aren't known, as a symbolic number, if it was seen to vary."""
        if self.elements is not None:
            return None
        assert self.source is not None
        return varying_length(vm, self.source, self.value, list, len(self.appended))

    def getitem(self, vm: VM, key: Object) -> Object | None:
        key = vm.observe(key)
        if self.notes_picks and (item := picked_item(vm, self, self.items(vm), key)) is not None:
            return item
        if self.cls is list and key.cls is int:
            if self.source is not None and self.is_as_outside() and (item := item_at_open_index(vm, self, key)) is not None:
                return item
            index = key.constant(vm)
            return self.peek(vm, index) or item_at(vm, self.items(vm), index, "list")
        return None

    def is_as_outside(self) -> bool:
        """Return whether the items that a list from outside had are still where they were."""
        elements, original = self.elements, self.original
        return elements is None or (len(elements) >= len(original) and all(now is before for now, before in zip(elements, original)))

    def peek(self, vm: VM, index: int) -> Object | None:
        """One item of a list from outside whose contents aren't known, counted from its beginning, or one of the appended items, counted from the end;
        the length stays unguarded."""
        if self.elements is not None:
            return None
        if index < 0:
            return self.appended[index] if -index <= len(self.appended) else None
        return present_item(vm, self, index)

    def setitem(self, vm: VM, key: Object, value: Object | None) -> bool:
        key = vm.observe(key)
        if self.cls is not list or key.cls is not int or value is None:
            return False
        index, size = key.constant(vm), len(self.items(vm))
        if not -size <= abstract.ssize(vm, index, IndexError) < size:
            vm.raise_(IndexError, "list assignment index out of range")
        self.set_at(vm, index % size, value)
        return True

    def as_real(self, vm: VM) -> Any:
        if self.cls is not list:
            raise NotConstant(self)
        return [vm.observe(item).as_real(vm) for item in self.items(vm)]

    def as_graph_argument(self, vm: VM) -> Any:
        if self.cls is not list:
            reject_own_items(vm, self)
        return [vm.observe(item).as_graph_argument(vm) for item in self.items(vm)]

    # Leaving the trace.

    def is_simple(self) -> bool:
        """Return whether the list can be built in one step: no item could refer back to it."""
        assert self.elements is not None
        return self.cls is list and not any(settle(item).referents() for item in self.elements)

    def needs_fill(self) -> bool:
        return not self.is_simple()

    def reconstruct(self, cg: Codegen) -> None:
        assert self.elements is not None
        if self.is_simple():
            for item in self.elements:
                cg.load(item)
            cg.build_list(len(self.elements))
            return
        cg.load_const(self.cls)
        cg.call_const(c_new(self.cls), 1)

    def fill(self, cg: Codegen) -> None:
        assert self.elements is not None
        self.emit_extend(cg, self.elements)
        if has_attrs(self):
            fill_attrs(cg, self)

    def emit_extend(self, cg: Codegen, items: list[Object]) -> None:
        """`list.extend(self, items)`."""
        cg.load(self)
        for item in items:
            cg.load(item)
        cg.build_list(len(items))
        cg.call_const(list.extend, 2)
        cg.pop_top()

    def replay(self, cg: Codegen) -> None:
        if self.elements is None:
            self.emit_extend(cg, self.appended)
            return
        before, after = self.original, self.elements
        if len(after) < len(before):
            self.emit_assign(cg, after)
            return
        changed = [i for i, item in enumerate(before) if settle(after[i]) is not settle(item)]
        if len(changed) > 4:
            self.emit_assign(cg, after)
            return
        for i in changed:
            cg.load(self)
            cg.load_const(i)
            cg.load(after[i])
            cg.call_const(list.__setitem__, 3)
            cg.pop_top()
        if len(after) > len(before):
            self.emit_extend(cg, after[len(before) :])

    def emit_assign(self, cg: Codegen, items: list[Object]) -> None:
        """`self[:] = items`."""
        cg.load(self)
        cg.load_const(slice(None))
        for item in items:
            cg.load(item)
        cg.build_list(len(items))
        cg.call_const(list.__setitem__, 3)
        cg.pop_top()

    def held_values(self) -> Iterator[tuple[Path, Object]]:
        yield from ((((Index, index),), item) for index, item in enumerate(self.elements or ()))
        yield from super().held_values()

    def referents(self) -> list[Object]:
        return [*(self.appended if self.elements is None else self.elements), *attr_values(self)]


def replaced_items(source: Source | None, step: type[Source], before: list[Object], after: list[Object] | None) -> list[tuple[Source, Object]]:
    """The paths in a sequence from outside at which there are other items than before, each with the item. `step` leads to an item from its index."""
    if source is None or after is None:
        return []
    pairs = [(settle(old), settle(new)) for old, new in zip(before, after)]
    return [(source.child(step, index), new) for index, (old, new) in enumerate(pairs) if new is not old]


@wraps(list, shared=True)
def wrap_list(vm: VM, value: Any, source: Source) -> ListObject:
    """Wrap a list from outside: nothing is known about its contents yet."""
    return ListObject(None, type(value), source, value)
