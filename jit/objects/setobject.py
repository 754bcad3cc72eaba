"""Sets and frozensets: real sets of hash keys give CPython's iteration order for constants; objects come in order of insertion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framejit import breaks, classes
from framejit._runtime import type_name
from framejit.guards.kinds import SetEquals, ValueIs
from framejit.guards.source import MISSING, Source
from framejit.objects.constobject import CONST_BUILDERS, c_new, is_plain, would_be_knowable
from framejit.objects.dictobject import DictObject, attr_values, fill_attrs, has_attrs, instance_dict
from framejit.objects.iterobject import IteratorObject
from framejit.objects.object import NotConstant, Object
from framejit.objects.registry import wrapper_for, wraps

if TYPE_CHECKING:
    from framejit.objects.vm import VM, Codegen

set_iterator: Any = type(iter(set()))


class SetObject(Object):
    """A set or frozenset, or an instance of a subclass. `table` maps hash keys to elements; None until one from outside is opened."""

    __slots__ = ("table", "before")

    def __init__(self, table: dict[Any, Object] | None, cls: type = set, source: Source | None = None, value: Any = MISSING) -> None:
        self.cls = cls
        self.source = source
        self.value = value
        self.attrs = None
        self.table = table
        self.before: dict[Any, Object] = {}

    @property
    def family(self) -> Any:
        """set or frozenset."""
        return frozenset if issubclass(self.cls, frozenset) else set

    def open(self, vm: VM) -> dict[Any, Object]:
        """Hash key -> element; guards all elements of a set from outside, which must be constants. Not to be changed by the caller."""
        table = self.table
        if table is None:
            elements = list(self.family.__iter__(self.value))
            if self.cls is frozenset and not all(map(is_plain, elements)) and all(wrapper_for(type(e)).by_identity or is_plain(e) for e in elements):
                # Immutable, and so are its elements: knowing which one it is, is knowing all of it.
                assert self.source is not None
                vm.guard(ValueIs, self.source, self.value)
                known = [vm.const(element) for element in elements]
                table = {element.hash_key(vm): element for element in known}
                vm.trail.set(self, "table", table)
                return table
            if not all(map(is_plain, elements)):
                vm.unsupported(breaks.UnsupportedValue(f"a {classes.name(self.cls)} of objects made outside the compiled function"))
            assert self.source is not None
            vm.guard(SetEquals, self.source, tuple(elements))
            table = {element: vm.const(element) for element in elements}
            vm.trail.set(self, "before", dict(table))
            vm.trail.set(self, "table", table)
        return table

    def ordered(self, vm: VM) -> list[tuple[Any, Object]]:
        """(hash key, element) in the order of iteration: CPython's own where all are constants."""
        table = self.open(vm)
        untouched = self.value is not MISSING and table.keys() == self.value
        if untouched or not all(map(is_plain, table)):
            return list(table.items())
        return [(key, table[key]) for key in set(table)]

    def items(self, vm: VM) -> list[Object]:
        """The elements in the order of iteration."""
        return [element for _, element in self.ordered(vm)]

    def add(self, vm: VM, item: Object) -> None:
        """set.add: an equal element that is there already stays."""
        item = vm.observe(item)
        key = item.hash_key(vm)
        table = self.open(vm)
        if key in table:
            return
        table[key] = item
        vm.trail.log(table.pop, key)
        self.changed(vm)

    def remove(self, vm: VM, key: Any) -> bool:
        """Remove the element with this hash key; False where there is none."""
        table = self.open(vm)
        if key not in table:
            return False
        self.replace(vm, {other: element for other, element in table.items() if other != key})
        return True

    def replace(self, vm: VM, table: dict[Any, Object]) -> None:
        """Give the set other contents altogether."""
        old = self.open(vm)
        if self.source is not None:
            vm.lets_go(element.value for key, element in old.items() if key not in table)
        vm.trail.set(self, "table", table)
        self.changed(vm)

    def changed(self, vm: VM) -> None:
        """Announce a mutation."""
        if self.source is not None:
            vm.effects.mutated(self)

    def has(self, vm: VM, item: Object) -> bool:
        """Membership; a set is looked up as the frozenset of its elements (Objects/setobject.c: set_contains)."""
        item = vm.observe(item)
        key = frozenset(item.open(vm)) if isinstance(item, SetObject) and item.family is set else item.hash_key(vm)
        return key in self.open(vm)

    def is_known(self) -> bool:
        if self.table is None:
            return self.source is None
        return self.cls is frozenset and all(element.is_known() for element in self.table.values())

    def is_knowable(self) -> bool:
        if self.cls is not frozenset:
            return False
        if self.table is None:
            return is_plain(self.value)
        return all(would_be_knowable(element) for element in self.table.values())

    def constant(self, vm: VM) -> Any:
        if self.value is not MISSING and self.source is None:
            return self.value
        return frozenset([vm.observe(element).constant(vm) for element in self.open(vm).values()])

    def as_real(self, vm: VM) -> Any:
        if self.cls is not self.family:
            raise NotConstant(self)
        return self.family([vm.observe(element).as_real(vm) for element in self.items(vm)])

    def hash_key(self, vm: VM) -> Any:
        cls: Any = self.cls
        if cls.__hash__ is None:
            vm.raise_(TypeError, f"unhashable type: '{type_name(cls)}'")
        if cls.__hash__ is not frozenset.__hash__:
            return self.identity_key(vm)
        return frozenset(self.open(vm))

    def instance_dict(self, vm: VM) -> DictObject | None:
        return None if self.cls in (set, frozenset) else instance_dict(vm, self)

    def iter(self, vm: VM) -> Object:
        return SetIterator(vm, self) if self.cls is self.family else vm.generic_iter(self)

    def truth(self, vm: VM) -> bool:
        return bool(self.open(vm)) if self.cls is self.family else vm.generic_truth(self)

    def length(self, vm: VM) -> Object:
        return vm.const(len(self.open(vm))) if self.cls is self.family else vm.generic_length(self)

    def contains(self, vm: VM, item: Object) -> Object | None:
        return vm.const(self.has(vm, item)) if self.cls is self.family else None

    def needs_fill(self) -> bool:
        return self.family is set and has_attrs(self)

    def reconstruct(self, cg: Codegen) -> None:
        assert self.table is not None
        if self.value is not MISSING:
            cg.load_const(self.value)
            return
        if self.cls is not set:
            cg.load_const(self.cls)
        for element in self.table.values():
            cg.load(element)
        cg.build_set(len(self.table))
        if self.cls is not set:
            cg.call_const(c_new(self.cls) if self.family is frozenset else rebuilt_set, 2)

    def fill(self, cg: Codegen) -> None:
        fill_attrs(cg, self)

    def replay(self, cg: Codegen) -> None:
        assert self.table is not None
        gone = [element for key, element in self.before.items() if key not in self.table]
        new = [element for key, element in self.table.items() if key not in self.before]
        for method, elements in ((set.difference_update, gone), (set.update, new)):
            if elements:
                cg.load(self)
                for element in elements:
                    cg.load(element)
                cg.build_tuple(len(elements))
                cg.call_const(method, 2)
                cg.pop_top()

    def referents(self) -> list[Object]:
        return [*(self.table or {}).values(), *attr_values(self)]


def rebuilt_set(cls: type, elements: set[Any]) -> Any:
    """Run by generated code: an instance of a subclass of set, without running its `__init__`."""
    made: set[Any] = set.__new__(cls)
    set.update(made, elements)
    return made


class SetIterator(IteratorObject):
    """Over a set; a change of size while it runs is the RuntimeError of setiter_iternext."""

    __slots__ = ("vm", "place", "owner", "table", "elements", "index")

    def __init__(self, vm: VM, owner: SetObject) -> None:
        super().__init__(set_iterator)
        self.vm = vm
        self.place = vm.place()
        self.owner = owner
        self.table = owner.open(vm)
        self.elements = owner.items(vm)
        self.index = 0

    def next(self, vm: VM) -> Object | None:
        if self.index < 0:
            return None
        if len(self.owner.open(vm)) != len(self.elements):
            vm.raise_(RuntimeError, "Set changed size during iteration")
        if self.owner.table is not self.table:
            vm.unsupported(breaks.UnsupportedOperation("a step of an iterator over a set whose elements have changed"))
        if self.index == len(self.elements):
            vm.trail.set(self, "index", -1)
            return None
        item = self.elements[self.index]
        vm.trail.set(self, "index", self.index + 1)
        return item

    def length_hint(self, vm: VM) -> int | None:
        return max(0, len(self.elements) - max(0, self.index)) if self.index >= 0 else 0

    def reconstruct(self, cg: Codegen) -> None:
        self.vm.trace_anew(self.place, breaks.InterruptedIterator("an iterator of a set"))


@wraps(set, frozenset, shared=True)
def wrap_set(vm: VM, value: Any, source: Source) -> SetObject:
    """A set from outside: nothing of its contents is known yet."""
    return SetObject(None, type(value), source, value)


def const_frozenset(vm: VM, value: frozenset[Any]) -> SetObject:
    """A frozenset of real constants."""
    return SetObject({element: vm.const(element) for element in value}, frozenset, None, value)


CONST_BUILDERS[frozenset] = const_frozenset


def set_of(vm: VM, items: list[Object], cls: type = set) -> SetObject:
    """A new set of these elements, the first of equal ones."""
    table: dict[Any, Object] = {}
    for item in items:
        item = vm.observe(item)
        table.setdefault(item.hash_key(vm), item)
    return SetObject(table, cls)
