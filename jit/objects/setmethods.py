"""The methods of set and frozenset (Objects/setobject.c)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from framejit.objects import abstract, text, typefields
from framejit.objects.constobject import NONE, NOT_IMPLEMENTED
from framejit.objects.dictobject import DictObject
from framejit.objects.object import Object
from framejit.objects.registry import models
from framejit.objects.sequence import COMPARISONS, compare_sets
from framejit.objects.setobject import SetIterator, SetObject

if TYPE_CHECKING:
    from framejit.objects.vm import VM

Table = dict[Any, Object]


def table_of(vm: VM, iterable: Object) -> Table:
    """The elements of any iterable, by hash key."""
    iterable = vm.observe(iterable)
    if isinstance(iterable, SetObject) and iterable.cls is iterable.family:
        return iterable.open(vm)
    if isinstance(iterable, DictObject) and iterable.cls is dict:
        return {hash_key: key for hash_key, (key, _) in iterable.open(vm).items()}
    table: Table = {}
    for item in abstract.each(vm, iterable):
        item = vm.observe(item)
        table.setdefault(item.hash_key(vm), item)
    return table


def made(self: SetObject, table: Table) -> SetObject:
    """A result of an operator: of the exact builtin type, as since Python 3 subclasses get the base type."""
    return SetObject(table, self.family)


def union(a: Table, b: Table) -> Table:
    return {**a, **difference(b, a)}


def intersection(a: Table, b: Table) -> Table:
    """The elements of the smaller one, which may be equal to those of the other and not the same."""
    few, many = (a, b) if len(b) > len(a) else (b, a)
    return {key: item for key, item in few.items() if key in many}


def difference(a: Table, b: Table) -> Table:
    return {key: item for key, item in a.items() if key not in b}


def symmetric_difference(a: Table, b: Table) -> Table:
    return {**difference(a, b), **difference(b, a)}


OPERATIONS: dict[str, tuple[Callable[[Table, Table], Table], str]] = {
    "union": (union, "or"),
    "intersection": (intersection, "and"),
    "difference": (difference, "sub"),
    "symmetric_difference": (symmetric_difference, "xor"),
}
UPDATES = {
    "union": "update",
    "intersection": "intersection_update",
    "difference": "difference_update",
    "symmetric_difference": "symmetric_difference_update",
}


def with_others(vm: VM, operate: Callable[[Table, Table], Table], self: SetObject, others: Sequence[Object]) -> Table:
    """What a method makes of the set and any iterables, one after the other."""
    table = dict(self.open(vm))
    for other in map(vm.observe, others):
        if operate is intersection and not isinstance(other, SetObject):
            table = found_in(vm, table, other)
        else:
            table = operate(table, table_of(vm, other))
    return table


def found_in(vm: VM, table: Table, iterable: Object) -> Table:
    """The elements of an iterable that are in the table: no more are asked for when all have been found."""
    found: Table = {}
    for item in map(vm.observe, abstract.each(vm, iterable)):
        key = item.hash_key(vm)
        if key in table:
            found.setdefault(key, item)
            if len(found) == len(table):
                break
    return found


def method(operate: Callable[[Table, Table], Table]) -> Callable[..., Object]:
    """The model of `a.union(...)` and its kind: any iterables, any number of them."""

    def model(vm: VM, self: SetObject, *others: Object) -> Object:
        return made(self, with_others(vm, operate, self, others))

    return model


def updating(operate: Callable[[Table, Table], Table]) -> Callable[..., Object]:
    """The model of `a.update(...)` and its kind."""

    def model(vm: VM, self: SetObject, *others: Object) -> Object:
        self.open(vm)
        for other in map(vm.observe, others):
            if operate in (union, difference) and not isinstance(other, (SetObject, DictObject)):
                for item in map(vm.observe, abstract.each(vm, other)):
                    self.add(vm, item) if operate is union else self.remove(vm, item.hash_key(vm))
            else:
                self.replace(vm, operate(self.open(vm), table_of(vm, other)))
        return NONE

    return model


def updating_at_last(operate: Callable[[Table, Table], Table]) -> Callable[..., Object]:
    """The model of `a.intersection_update(...)`, which changes nothing before it has seen all operands."""

    def model(vm: VM, self: SetObject, *others: Object) -> Object:
        self.replace(vm, with_others(vm, operate, self, others))
        return NONE

    return model


def operator_of(operate: Callable[[Table, Table], Table], reflected: bool) -> Callable[..., Object]:
    """The model of `a | b` and its kind: sets only."""

    def model(vm: VM, self: SetObject, other: Object) -> Object:
        other = vm.observe(other)
        if not isinstance(other, SetObject):
            return NOT_IMPLEMENTED
        left, right = (other, self) if reflected else (self, other)
        return made(left, operate(left.open(vm), right.open(vm)))

    return model


def inplace(operate: Callable[[Table, Table], Table]) -> Callable[..., Object]:
    """The model of `a |= b` and its kind."""

    def model(vm: VM, self: SetObject, other: Object) -> Object:
        other = vm.observe(other)
        if not isinstance(other, SetObject):
            return NOT_IMPLEMENTED
        self.replace(vm, operate(self.open(vm), other.open(vm)))
        return self

    return model


def comparison(symbol: str) -> Callable[..., Object]:
    """The model of a comparison: inclusion."""

    def model(vm: VM, self: SetObject, other: Object) -> Object:
        other = vm.observe(other)
        if not isinstance(other, SetObject):
            return NOT_IMPLEMENTED
        return compare_sets(vm, symbol, self.open(vm), other.open(vm))

    return model


def of_one(model: Callable[..., Object]) -> Callable[..., Object]:
    """The model of a method that takes one iterable."""
    return lambda vm, self, other: model(vm, self, other)


for _cls in (set, frozenset):
    for _name, (_operate, _short) in OPERATIONS.items():
        models(getattr(_cls, _name))(of_one(method(_operate)) if _operate is symmetric_difference else method(_operate))
        models(getattr(_cls, f"__{_short}__"))(operator_of(_operate, False))
        models(getattr(_cls, f"__r{_short}__"))(operator_of(_operate, True))
    for _name, _symbol in COMPARISONS.items():
        models(getattr(_cls, _name))(comparison(_symbol))
for _name, _update in UPDATES.items():
    _model = (updating_at_last if _name == "intersection" else updating)(OPERATIONS[_name][0])
    models(getattr(set, _update))(of_one(_model) if _name == "symmetric_difference" else _model)
    models(getattr(set, f"__i{OPERATIONS[_name][1]}__"))(inplace(OPERATIONS[_name][0]))


@models(set)
def make_set(vm: VM, iterable: Object | None = None) -> Object:
    return SetObject({} if iterable is None else dict(table_of(vm, iterable)))


@models(frozenset)
def make_frozenset(vm: VM, iterable: Object | None = None) -> Object:
    if iterable is not None and vm.observe(iterable).cls is frozenset:
        return vm.observe(iterable)
    return SetObject({} if iterable is None else dict(table_of(vm, iterable)), frozenset)


@models(set.__new__)
def set_new(vm: VM, cls: Object, /, *args: Object, **kwargs: Object) -> Object:
    return SetObject({}, vm.observe(cls).constant(vm))


@models(frozenset.__new__)
def frozenset_new(vm: VM, cls: Object, iterable: Object | None = None) -> Object:
    return SetObject({} if iterable is None else dict(table_of(vm, iterable)), vm.observe(cls).constant(vm))


@models(set.__init__)
def set_init(vm: VM, self: SetObject, iterable: Object | None = None) -> Object:
    if self.open(vm):
        self.replace(vm, {})
    if iterable is not None:
        self.replace(vm, dict(table_of(vm, iterable)))
    return NONE


@models(set.add)
def add(vm: VM, self: SetObject, item: Object) -> Object:
    self.add(vm, item)
    return NONE


def looked_up(vm: VM, item: Object) -> Any:
    """The hash key by which an element is searched: a set stands for its frozenset."""
    item = vm.observe(item)
    return frozenset(item.open(vm)) if isinstance(item, SetObject) and item.family is set else item.hash_key(vm)


@models(set.discard)
def discard(vm: VM, self: SetObject, item: Object) -> Object:
    self.remove(vm, looked_up(vm, item))
    return NONE


@models(set.remove)
def remove(vm: VM, self: SetObject, item: Object) -> Object:
    if not self.remove(vm, looked_up(vm, item)):
        vm.raise_(KeyError, item)
    return NONE


@models(set.pop)
def pop(vm: VM, self: SetObject) -> Object:
    ordered = self.ordered(vm)
    if not ordered:
        vm.raise_(KeyError, "pop from an empty set")
    key, element = ordered[0]
    self.remove(vm, key)
    return element


@models(set.clear)
def clear(vm: VM, self: SetObject) -> Object:
    self.replace(vm, {})
    return NONE


@models(set.copy)
def copy(vm: VM, self: SetObject) -> Object:
    return SetObject(dict(self.open(vm)))


@models(frozenset.copy)
def frozen_copy(vm: VM, self: SetObject) -> Object:
    return self if self.cls is frozenset else SetObject(dict(self.open(vm)), frozenset)


@models(set.__len__, frozenset.__len__)
def length(vm: VM, self: SetObject) -> Object:
    return vm.const(len(self.open(vm)))


@models(set.__iter__, frozenset.__iter__)
def iterate(vm: VM, self: SetObject) -> Object:
    return SetIterator(vm, self)


@models(set.__contains__, frozenset.__contains__)
def contains(vm: VM, self: SetObject, item: Object) -> Object:
    return vm.const(self.has(vm, item))


@models(set.issubset, frozenset.issubset)
def issubset(vm: VM, self: SetObject, other: Object) -> Object:
    return compare_sets(vm, "<=", self.open(vm), table_of(vm, other))


@models(set.issuperset, frozenset.issuperset)
def issuperset(vm: VM, self: SetObject, other: Object) -> Object:
    other = vm.observe(other)
    if isinstance(other, SetObject):
        return compare_sets(vm, ">=", self.open(vm), table_of(vm, other))
    return vm.const(all(vm.observe(item).hash_key(vm) in self.open(vm) for item in abstract.each(vm, other)))


@models(set.isdisjoint, frozenset.isdisjoint)
def isdisjoint(vm: VM, self: SetObject, other: Object) -> Object:
    other = vm.observe(other)
    if isinstance(other, SetObject):
        return vm.const(not intersection(self.open(vm), table_of(vm, other)))
    return vm.const(all(vm.observe(item).hash_key(vm) not in self.open(vm) for item in abstract.each(vm, other)))


@models(frozenset.__hash__)
def hash_frozenset(vm: VM, self: SetObject) -> Object:
    return vm.const(frozenset.__hash__(self.constant(vm)))


@models(set.__repr__, frozenset.__repr__)
def render(vm: VM, self: SetObject) -> Object:
    name = typefields.name_of(vm, self.cls)
    if not self.open(vm):
        return vm.const(f"{name}()")
    if text.is_being_rendered(self):
        return vm.const(f"{name}(...)")
    body = text.repr_of_items(vm, self, "{}", lambda: [text.real_repr(vm, item) for item in self.items(vm)])
    return body if self.cls is set else vm.const(f"{name}({body.constant(vm)})")
