"""collections.deque: a list with a maximum length."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from framejit import breaks
from framejit.guards.container_sources import DequeIndex
from framejit.guards.kinds import Equals, Length
from framejit.guards.source import MISSING, CAttr, Path, Source
from framejit.objects.core import abstract, operators
from framejit.objects.core.object import VM, Codegen, Namespace, Object, unhashable
from framejit.objects.core.registry import wraps
from framejit.objects.types.constobject import c_new
from framejit.objects.types.dictobject import attr_values, fill_attrs, instance_dict
from framejit.objects.types.iterobject import IteratorObject
from framejit.objects.types.lengths import length_outside, varying_length
from framejit.objects.types.listobject import replaced_items
from framejit.program import classes

deque_iterator: Any = type(iter(deque()))
deque_reverse_iterator: Any = type(reversed(deque()))


class DequeObject(Object):
    """A deque. Until one from outside is opened, `elements` is None and `appended` holds what was appended at the right. `maxlen` is the real bound, guarded
    where something depends on it.

    `version` counts the changes that end iterators, as `deque.state` does; assigning to an item isn't one. `original`: the items of one from outside.
    """

    __slots__ = ("elements", "appended", "original", "maxlen", "version")
    is_filled = True

    def __init__(
        self, elements: list[Object] | None, maxlen: int | None, cls: type = deque, source: Source | None = None, value: Any = MISSING
    ) -> None:
        self.cls = cls
        self.source = source
        self.value = value
        self.attrs = None
        self.elements = elements
        self.appended: list[Object] = []
        self.original: list[Object] = []
        self.maxlen = maxlen
        self.version = 0

    def items(self, vm: VM) -> list[Object]:
        """The elements, unobserved; guards length and bound of a deque from outside. The caller must not change the list."""
        elements = self.elements
        if elements is None:
            source = self.source
            assert source is not None
            values = list(deque.__iter__(self.value))
            vm.guard(Length, source, len(values))
            bound = self.bound(vm)
            original = [vm.wrap(value, source.child(DequeIndex, i)) for i, value in enumerate(values)]
            elements = original + self.appended
            if bound is not None and len(elements) > bound:
                elements = elements[len(elements) - bound :]
            vm.trail.fill(self, "original", original)
            vm.trail.fill(self, "elements", elements)
        return elements

    def bound(self, vm: VM) -> int | None:
        """The greatest length; guards that of a deque from outside."""
        if self.elements is None:
            assert self.source is not None
            vm.guard(Equals, self.source.child(CAttr, "maxlen"), self.maxlen)
        return self.maxlen

    def extend(self, vm: VM, items: list[Object]) -> None:
        """Append items at the right; guards nothing of a deque from outside that isn't opened."""
        if self.elements is not None:
            self.replace(vm, self.elements + items)
            return
        vm.trail.set(self, "appended", self.appended + items)
        vm.trail.set(self, "version", self.version + 1)
        vm.effects.mutated(self)

    def replace(self, vm: VM, elements: list[Object], drop_left: bool = True) -> None:
        """Give the deque other contents; items over the bound are dropped at the left, or at the right."""
        self.items(vm)
        if self.maxlen is not None and len(elements) > self.maxlen:
            elements = elements[len(elements) - self.maxlen :] if drop_left else elements[: self.maxlen]
        vm.trail.set(self, "version", self.version + 1)
        self.store(vm, elements)

    def store(self, vm: VM, elements: list[Object]) -> None:
        """Replace each item of the deque by another one; the number of items stays the same."""
        vm.trail.set(self, "elements", elements)
        if self.source is not None:
            vm.effects.mutated(self)

    def replaced(self) -> list[tuple[Source, Object]]:
        return replaced_items(self.source, DequeIndex, self.original, self.elements)

    def instance_dict(self, vm: VM) -> Namespace | None:
        return None if self.cls is deque else instance_dict(vm, self)

    def hash_key(self, vm: VM) -> Any:
        if self.cls.__hash__ is None:
            unhashable(vm, self.type_name)
        return self.identity_key(vm)

    def iter(self, vm: VM) -> Object:
        return DequeIterator(vm, self, False) if self.cls is deque else Object.iter(self, vm)

    def truth(self, vm: VM) -> bool:
        return self.count(vm).truth(vm) if self.cls is deque else Object.truth(self, vm)

    def length(self, vm: VM) -> Object:
        return self.count(vm) if self.cls is deque else Object.length(self, vm)

    def count(self, vm: VM) -> Object:
        """The number of items. That of a deque from outside whose contents aren't known is symbolic if it was seen to vary, and fixed only if its value is
        needed: deques grow, and programs mostly ask whether they have grown enough."""
        if self.elements is None:
            assert self.source is not None
            if not self.appended:
                return length_outside(self.source, self.value, deque)
            found = varying_length(vm, self.source, self.value, deque, len(self.appended))
            if found is not None:
                bound = self.bound(vm) if self.appended else None
                is_over = bound is not None and abstract.truth(vm, operators.compare(vm, ">", found, vm.const(bound)))
                return vm.const(bound) if is_over else found
        return vm.const(len(self.items(vm)))

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.cls)
        cg.call_const(c_new(self.cls), 1)

    def fill(self, cg: Codegen) -> None:
        self._emit_init(cg)
        fill_attrs(cg, self)

    def replay(self, cg: Codegen) -> None:
        if self.elements is None:
            cg.load(self)
            for item in self.appended:
                cg.load(item)
            cg.build_list(len(self.appended))
            cg.call_const(deque.extend, 2)
            cg.pop_top()
            return
        if self.version:
            self._emit_init(cg)
            return
        assert self.elements is not None
        for index, (item, before) in enumerate(zip(self.elements, self.original, strict=True)):
            if item is not before:
                cg.load(self)
                cg.load_const(index)
                cg.load(item)
                cg.call_const(deque.__setitem__, 3)
                cg.pop_top()

    def _emit_init(self, cg: Codegen) -> None:
        """Emit `deque.__init__(self, items, maxlen)`, which clears first (Modules/_collectionsmodule.c: deque_init)."""
        elements = self.elements
        assert elements is not None
        cg.load(self)
        for item in elements:
            cg.load(item)
        cg.build_tuple(len(elements))
        cg.load_const(self.maxlen)
        cg.call_const(deque.__init__, 3)
        cg.pop_top()

    def held_values(self) -> Iterator[tuple[Path, Object]]:
        yield from ((((DequeIndex, index),), item) for index, item in enumerate(self.elements or ()))
        yield from super().held_values()

    def referents(self) -> list[Object]:
        return [*(self.appended if self.elements is None else self.elements), *attr_values(self)]


class DequeIterator(IteratorObject):
    """An iterator over a deque; any change while it runs raises the RuntimeError of dequeiter_next."""

    __slots__ = ("owner", "size", "index", "version", "backwards")

    def __init__(self, vm: VM, owner: DequeObject, backwards: bool) -> None:
        super().__init__(deque_reverse_iterator if backwards else deque_iterator)
        self.owner = owner
        self.size = len(owner.items(vm))
        self.index = 0
        self.version = owner.version
        self.backwards = backwards

    def next(self, vm: VM) -> Object | None:
        items = self.owner.items(vm)
        if self.backwards and self.index >= self.size:
            return None
        if self.owner.version != self.version:
            vm.trail.set(self, "index", self.size)
            vm.raise_(RuntimeError, "deque mutated during iteration")
        if self.index >= len(items):
            return None
        item = items[-1 - self.index] if self.backwards else items[self.index]
        vm.trail.set(self, "index", self.index + 1)
        return item

    def length_hint(self, vm: VM) -> int | None:
        return self.size - self.index

    def reconstruct(self, cg: Codegen) -> None:
        if self.owner.version != self.version:
            cg.unsupported(breaks.CannotReconstruct(f"a {classes.name(self.cls)} over a deque that was changed"))
        cg.load(self.owner)
        cg.load_const(self.index)
        cg.call_const(deque_reverse_iterator if self.backwards else deque_iterator, 2)

    def awaits(self) -> Object | None:
        return self.owner

    def referents(self) -> list[Object]:
        return [self.owner]


@wraps(deque, shared=True)
def wrap_deque(vm: VM, value: Any, source: Source) -> DequeObject:
    """Wrap a deque from outside: nothing is known about its contents yet."""
    return DequeObject(None, value.maxlen, type(value), source, value)
