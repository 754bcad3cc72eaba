"""Tuples, and the immutable sequences that are tuples: named tuples, torch.Size, struct sequences, users' subclasses."""

from __future__ import annotations

from collections.abc import Iterator
from types import MemberDescriptorType
from typing import Any

import torch

from framejit import breaks
from framejit.guards.kinds import Equals, IsPresent, Length
from framejit.guards.source import MISSING, Index, Path, Source
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Codegen, Namespace, NotConstant, Object, is_c_member
from framejit.objects.core.registry import wraps
from framejit.objects.types.constobject import CONST_BUILDERS, c_new, is_plain, would_be_knowable
from framejit.objects.types.dictobject import attr_values, fill_attrs, has_attrs, instance_dict
from framejit.objects.types.iterobject import SequenceIterator, tuple_iterator
from framejit.objects.types.openkeys import item_at_open_index
from framejit.program import classes

CONVERSIONS = ("__index__", "__int__", "__float__", "__complex__", "__str__", "__format__", "__fspath__")
BY_ITEMS: tuple[Any, ...] = (tuple.__hash__, tuple.__eq__, torch.Size.__hash__, torch.Size.__eq__)
"""Methods with which a tuple hashes and compares by its items; some builds of torch give Size its own."""
ITEMS = ("__iter__", "__len__", "__getitem__", "__contains__", "__eq__", "__lt__", "__hash__")


def means_a_tuple(vm: VM, cls: type) -> bool:
    """Return whether C code treats an instance of a subclass of tuple as that tuple alone, because it would call no code of the program's.

    A `__repr__` may be there (named tuples have one): functions that write text have models of their own.
    """
    found = [vm.raw_type_lookup(cls, name) for name in (*CONVERSIONS, *ITEMS)]
    return not any(map(abstract.may_run_python, found))


def reject_own_items(vm: VM, obj: Object) -> None:
    """Break for a list or tuple as an argument of one of torch's operations if that may call the program's methods for its items."""
    if any(abstract.may_run_python(vm.raw_type_lookup(obj.cls, name)) for name in ("__iter__", "__len__", "__getitem__")):
        vm.unsupported(breaks.UnsupportedValue(f"a {classes.qualname(obj.cls)} with methods of its own as an argument of an operation"))


class TupleObject(Object):
    """An immutable sequence. `elements` is None until the contents of a tuple from outside are needed."""

    __slots__ = ("elements", "guarded")

    def __init__(self, elements: list[Object] | None, cls: type = tuple, source: Source | None = None, value: Any = MISSING) -> None:
        self.cls = cls
        self.source = source
        self.value = value
        self.attrs = None
        self.elements = elements
        self.guarded = source is None

    def items(self, vm: VM) -> list[Object]:
        """The elements, unobserved. Guards the length of a tuple from outside. The caller must not change the list."""
        elements = self.elements
        if elements is None:
            source = self.source
            assert source is not None
            values = list(tuple.__iter__(self.value))
            abstract.reject_many(vm, self, len(values))
            if not self.guarded:
                vm.guard(Length, source, len(values))
            elements = [vm.wrap(value, source.child(Index, i)) for i, value in enumerate(values)]
            vm.trail.set(self, "elements", elements)
        return elements

    def is_known(self) -> bool:
        if self.elements is None:
            return self.guarded
        return all(item.is_known() for item in self.elements)

    def is_knowable(self) -> bool:
        if self.cls is not tuple and classes.flags(self.cls) & classes.HEAP_TYPE:
            return False
        if self.elements is None:
            return is_plain(tuple(tuple.__iter__(self.value)))
        return all(would_be_knowable(item) for item in self.elements)

    def constant(self, vm: VM) -> Any:
        if self.source is not None and self.elements is None and self.cls is tuple:
            if not self.guarded:
                vm.guard(Equals, self.source, self.value)
                vm.trail.fill(self, "guarded", True)
            return self.value
        values = tuple(vm.observe(item).constant(vm) for item in self.items(vm))
        if self.cls is tuple:
            return values
        return self.value if self.value is not MISSING else c_new(self.cls)(self.cls, values)

    def is_symbolic(self, vm: VM) -> bool:
        return self.elements is not None and any(vm.observe(item).is_symbolic(vm) for item in self.elements)

    def hash_key(self, vm: VM) -> Any:
        cls: Any = self.cls
        if not all(any(method is known for known in BY_ITEMS) for method in (cls.__hash__, cls.__eq__)):  # `in` would ask a method of the program
            return self.identity_key(vm)
        return tuple(vm.observe(item).hash_key(vm) for item in self.items(vm))

    def instance_dict(self, vm: VM) -> Namespace | None:
        return None if self.cls is tuple else instance_dict(vm, self)

    def iter(self, vm: VM) -> Object:
        if self.cls is tuple:
            return SequenceIterator(self, tuple_iterator)
        return Object.iter(self, vm)

    def truth(self, vm: VM) -> bool:
        if self.cls is tuple:
            return self.peek(vm, 0) is not None or bool(self.items(vm))
        return Object.truth(self, vm)

    def length(self, vm: VM) -> Object:
        if self.cls is tuple:
            return vm.const(len(self.items(vm)))
        return Object.length(self, vm)

    def getitem(self, vm: VM, key: Object) -> Object | None:
        key = vm.observe(key)
        if self.cls is tuple and key.cls is int:
            if self.source is not None and (self.elements is not None or not self.guarded) and (item := item_at_open_index(vm, self, key)) is not None:
                return item
            index = key.constant(vm)
            return self.peek(vm, index) or item_at(vm, self.items(vm), index, "tuple")
        return None

    def peek(self, vm: VM, index: int) -> Object | None:
        """One item of a tuple from outside whose contents aren't known, counted from its beginning; the length stays unguarded."""
        if self.elements is not None or self.guarded or index < 0:
            return None
        return present_item(vm, self, index)

    def as_real(self, vm: VM) -> Any:
        if self.is_knowable():
            for item in self.elements or ():
                vm.observe(item).as_real(vm)  # an item may not be one for C code
            return self.constant(vm)
        if self.cls is not tuple and not means_a_tuple(vm, self.cls):
            raise NotConstant(self)
        values = tuple([vm.observe(item).as_real(vm) for item in self.items(vm)])
        return values if self.cls is tuple else c_new(self.cls)(self.cls, values)

    def get_slot(self, vm: VM, member: MemberDescriptorType) -> Object:
        """A named field of a struct sequence."""
        names = getattr(self.cls, "__match_args__", ())
        if member.__name__ in names and is_c_member(member):
            return self.items(vm)[names.index(member.__name__)]
        return super().get_slot(vm, member)

    def as_graph_argument(self, vm: VM) -> Any:
        if self.is_knowable() and not self.is_symbolic(vm):
            return self.constant(vm)
        if self.cls is not tuple:
            reject_own_items(vm, self)
        values = [vm.observe(item).as_graph_argument(vm) for item in self.items(vm)]
        if self.cls is tuple or not hasattr(self.cls, "_fields"):
            return tuple(values)
        return c_new(self.cls)(self.cls, values)

    def reconstruct(self, cg: Codegen) -> None:
        assert self.elements is not None
        if self.cls is not tuple:
            cg.load_const(self.cls)
        for item in self.elements:
            cg.load(item)
        cg.build_tuple(len(self.elements))
        if self.cls is not tuple:
            cg.call_const(c_new(self.cls), 2)

    def needs_fill(self) -> bool:
        return has_attrs(self)

    def fill(self, cg: Codegen) -> None:
        fill_attrs(cg, self)

    def held_values(self) -> Iterator[tuple[Path, Object]]:
        yield from ((((Index, index),), item) for index, item in enumerate(self.elements or ()))
        yield from super().held_values()

    def referents(self) -> list[Object]:
        return [*(self.elements or ()), *attr_values(self)]


def present_item(vm: VM, sequence: Object, index: int) -> Object | None:
    """An item of a list or tuple from outside, guarded to be there; None if it isn't."""
    assert sequence.source is not None
    for value in sequence.value[index : index + 1]:
        item = sequence.source.child(Index, index)
        vm.guard(IsPresent, item)
        return vm.wrap(value, item)
    return None


def item_at(vm: VM, items: list[Object], index: int, kind: str) -> Object:
    """`items[index]`, or the IndexError of a list or tuple."""
    if not -len(items) <= abstract.ssize(vm, index, IndexError) < len(items):
        vm.raise_(IndexError, f"{kind} index out of range")
    return items[index]


@wraps(tuple)
def wrap_tuple(vm: VM, value: Any, source: Source) -> TupleObject:
    """Wrap a tuple from outside: nothing is known about its contents yet."""
    return TupleObject(None, type(value), source, value)


def const_tuple(vm: VM, value: tuple[Any, ...]) -> TupleObject:
    """A tuple of real constants."""
    return TupleObject([vm.const(item) for item in value], type(value))


CONST_BUILDERS[tuple] = const_tuple
