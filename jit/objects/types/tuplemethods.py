"""The methods of tuple (Objects/tupleobject.c), and the field getters of named tuples."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from framejit.guards.source import Source
from framejit.objects.core import abstract, operators, text
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.core.registry import models, pure, pure_methods, wraps
from framejit.objects.types.iterobject import SequenceIterator, tuple_iterator
from framejit.objects.types.sequence import COMPARISONS, bounds, checked_index, comparison, find, real_slice, repeat, same_kind
from framejit.objects.types.sliceobject import SliceObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.program import classes

pure_methods(torch.Size)
pure(torch.Size)

for _name, _symbol in COMPARISONS.items():
    models(*{getattr(tuple, _name), getattr(torch.Size, _name)})(comparison(_symbol, tuple))  # some builds of torch give Size its own


@models(tuple)
def make_tuple(vm: VM, iterable: Object | None = None) -> Object:
    if iterable is None:
        return TupleObject([])
    iterable = vm.observe(iterable)
    return iterable if iterable.cls is tuple else TupleObject(abstract.tuple_of(vm, iterable))


@models(tuple.__new__)
def tuple_new(vm: VM, cls: Object, iterable: Object | None = None) -> Object:
    real = abstract.class_to_make(vm, cls)
    if real is tuple:
        return make_tuple(vm, iterable)
    return TupleObject([] if iterable is None else abstract.tuple_of(vm, iterable), real)


def unchanged_or(tuple_: TupleObject, items: list[Object]) -> TupleObject:
    """The tuple itself if it has just these items, or a new one if it is of a subclass (Objects/tupleobject.c)."""
    return tuple_ if tuple_.cls is tuple else TupleObject(items)


@models(tuple.__add__)
def add(vm: VM, self: TupleObject, other: Object) -> Object:
    left, right = self.items(vm), same_kind(vm, other, tuple).items(vm)  # type: ignore[attr-defined]
    if not right:
        return unchanged_or(self, left)
    other = vm.observe(other)
    return TupleObject(left + right) if left or other.cls is not tuple else other


@models(tuple.__mul__, tuple.__rmul__)
def mul(vm: VM, self: TupleObject, times: Object) -> Object:
    items = repeat(vm, self, times)
    return unchanged_or(self, items) if len(items) == len(self.items(vm)) else TupleObject(items)


@models(tuple.__len__)
def length(vm: VM, self: TupleObject) -> Object:
    return vm.const(len(self.items(vm)))


@models(tuple.__iter__)
def iterate(vm: VM, self: TupleObject) -> Object:
    return SequenceIterator(self, tuple_iterator)


@models(tuple.__contains__)
def contains(vm: VM, self: TupleObject, item: Object) -> Object:
    return vm.const(find(vm, self, item) >= 0)


@models(tuple.__getitem__)
def getitem(vm: VM, self: TupleObject, key: Object) -> Object:
    items = self.items(vm)
    key = vm.observe(key)
    if isinstance(key, SliceObject):
        taken = real_slice(vm, key).indices(len(items))
        return unchanged_or(self, items) if taken == (0, len(items), 1) else TupleObject([items[i] for i in range(*taken)])
    return items[checked_index(vm, key, self, "tuple")]


@models(tuple.index)
def index(vm: VM, self: TupleObject, item: Object, start: Object | None = None, stop: Object | None = None) -> Object:
    position = find(vm, self, item, *bounds(vm, self, start, stop))
    if position < 0:
        vm.raise_(ValueError, "tuple.index(x): x not in tuple")
    return vm.const(position)


@models(tuple.count)
def count(vm: VM, self: TupleObject, item: Object) -> Object:
    return vm.const(sum([operators.equal(vm, each, item) for each in self.items(vm)]))


class Hashed:
    """A stand-in with a given hash: the hash of a hash can be another number."""

    __slots__ = ("hash",)

    def __init__(self, hash: int) -> None:
        self.hash = hash

    def __hash__(self) -> int:
        return self.hash


@models(*{tuple.__hash__, torch.Size.__hash__})
def hash_tuple(vm: VM, self: TupleObject) -> Object:
    return vm.const(tuple.__hash__(tuple([Hashed(vm.observe(text.hash_(vm, item)).constant(vm)) for item in self.items(vm)])))


@models(tuple.__repr__)
def render(vm: VM, self: TupleObject) -> Object:
    def parts() -> list[str]:
        texts = [text.real_repr(vm, item) for item in self.items(vm)]
        return [texts[0] + ","] if len(texts) == 1 else texts

    return text.repr_of_items(vm, self, "()", parts)


@models(vars(tuple)["__getnewargs__"])
def getnewargs(vm: VM, self: TupleObject) -> Object:
    return TupleObject([TupleObject(list(self.items(vm)))])


class Probe(NamedTuple):
    """A named tuple, used to find the type of its fields' descriptors."""

    field: Any


FieldGetter: type = type(Probe.__dict__["field"])


class FieldGetterObject(Object):
    """A named tuple's field (Modules/_collectionsmodule.c: _tuplegetter): immutable, known by identity."""

    __slots__ = ()

    def is_data_descriptor(self, vm: VM) -> bool:
        return True

    def descriptor_get(self, vm: VM, obj: Object | None, cls: type, delivery: Delivery | None = None) -> Object:
        if obj is None:
            return self
        assert isinstance(obj, TupleObject)
        position = self.value.__reduce__()[1][0]
        items = obj.items(vm)
        if position >= len(items):
            vm.raise_(IndexError, "tuple index out of range")
        item, name = items[position], self.name_in(obj)
        if item.source is not None and item.source.base is obj.source and obj.source is not None and name is not None:
            item.source.is_called(f"{obj.source.name_in_reports()}.{name}")
        return item

    def name_in(self, obj: Object) -> str | None:
        """The name of the field in the class of a named tuple."""
        return next((name for name, found in classes.class_dict(obj.cls).items() if found is self.value), None)

    def descriptor_set(self, vm: VM, obj: Object, value: Object | None, delivery: Delivery | None = None) -> bool:
        vm.raise_(AttributeError, "can't set attribute" if value is not None else "can't delete attribute")

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.value)


class MadeFieldGetter(FieldGetterObject):
    """A field of a named tuple's class that the trace makes: each call makes another one, whose text may be set later. `value` stands for it."""

    __slots__ = ()

    def reconstruct(self, cg: Codegen) -> None:
        made, arguments = self.value.__reduce__()
        for argument in arguments:
            cg.load_const(argument)
        cg.call_const(made, len(arguments))


@wraps(FieldGetter, by_identity=True)
def wrap_field_getter(vm: VM, value: Any, source: Source | None) -> FieldGetterObject:
    """Wrap the descriptor of a named tuple's field."""
    return FieldGetterObject(FieldGetter, source, value)
