"""The methods of set and frozenset (Objects/setobject.c)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from framejit.guards.source import MISSING
from framejit.objects.core import abstract, differences, text
from framejit.objects.core.addresses import tell_keys_apart, tell_tables_apart
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models
from framejit.objects.types import typefields
from framejit.objects.types.constobject import NONE, NOT_IMPLEMENTED
from framejit.objects.types.dictobject import DictObject
from framejit.objects.types.sequence import COMPARISONS, compare_sets
from framejit.objects.types.setlayout import EMPTY, ITSELF, SetLayout, laid_out, stand_ins
from framejit.objects.types.setobject import SetIterator, SetObject, looked_up

Table = dict[Any, Object]


def table_of(vm: VM, iterable: Object, key_of: Callable[[VM, Object], Any] = abstract.set_element) -> Table:
    """The elements of any iterable, by hash key."""
    iterable = vm.observe(iterable)
    if isinstance(iterable, SetObject):
        return iterable.open(vm)
    if isinstance(iterable, DictObject) and iterable.cls is dict:
        return {hash_key: key for hash_key, (key, _) in iterable.open(vm).items()}
    table: Table = {}
    for item in abstract.each(vm, iterable):
        item = vm.observe(item)
        table.setdefault(key_of(vm, item), item)
    return table


def operand(vm: VM, iterable: Object) -> tuple[Table, Any]:
    """The elements of any iterable, by hash key, and the iterable's representative in a layout."""
    iterable = vm.observe(iterable)
    if isinstance(iterable, SetObject):
        return iterable.open(vm), iterable.operand(vm)
    table = table_of(vm, iterable)
    keys = stand_ins(table)
    if isinstance(iterable, DictObject) and iterable.cls is dict and keys is not MISSING:
        keys = dict.fromkeys(keys)
    return table, keys


def changing(vm: VM, self: SetObject, other: Object) -> tuple[Table, Any]:
    """`operand` for a step that changes the set itself."""
    return (self.open(vm), ITSELF) if vm.observe(other) is self else operand(vm, other)


def union(a: Table, b: Table) -> Table:
    return {**a, **difference(b, a)}


def intersection(a: Table, b: Table) -> Table:
    """The intersection, with the elements of the smaller table, which may be equal to those of the other but not the same."""
    few, many = (a, b) if len(b) > len(a) else (b, a)
    return {key: item for key, item in few.items() if key in many}


def difference(a: Table, b: Table) -> Table:
    return {key: item for key, item in a.items() if key not in b}


def symmetric_difference(a: Table, b: Table) -> Table:
    return {**difference(a, b), **difference(b, a)}


def combined(vm: VM, operate: Callable[[Table, Table], Table], a: Table, b: Table) -> Table:
    """The result of an operation on two tables."""
    tell_tables_apart(vm, a, b)
    return operate(a, b)


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


def with_others(vm: VM, operate: Callable[[Table, Table], Table], self: SetObject, others: Sequence[Object]) -> tuple[Table, list[Any]]:
    """The result of a method on the set and any iterables, one after the other; and the representatives of these in a layout."""
    table = dict(self.open(vm))
    args = []
    for other in map(vm.observe, others):
        if operate is intersection and not isinstance(other, SetObject):
            table = elements_in(vm, table, other)
            args.append(stand_ins(table))
        else:
            elements, arg = operand(vm, other)
            table = combined(vm, operate, table, elements)
            args.append(arg)
    return table, args


def elements_in(vm: VM, table: Table, iterable: Object) -> Table:
    """The elements of an iterable that are in the table. Once all have been found, no more are asked for."""
    found: Table = {}
    for item in map(vm.observe, abstract.each(vm, iterable)):
        key = item.hash_key(vm)
        if key in table:
            found.setdefault(key, item)
            if len(found) == len(table):
                break
        else:
            tell_keys_apart(vm, key, table)
    return found


def method(name: str) -> Callable[..., Object]:
    """The model of `a.union(...)` and its kind: any iterables, any number of them."""
    operate = OPERATIONS[name][0]

    def model(vm: VM, self: SetObject, *others: Object) -> Object:
        found = difference_of_unseen(vm, self, others[0]) if operate is difference and len(others) == 1 else None
        if found is not None:
            return found
        left = self.operand(vm)
        table, args = with_others(vm, operate, self, others)
        return SetObject(table, self.family, layout=laid_out(None, getattr(self.family, name), left, *args))

    return model


def difference_of_unseen(vm: VM, left: SetObject, right: Object) -> SetObject | None:
    """set_difference, where the trace doesn't see the table of one of two sets, which is from outside and has changed since; None if it sees both, or if the
    order of the result depends on that table. That of the second set counts for nothing, nor that of the first, where at most one element is left and put
    into a new table."""
    right = vm.observe(right)
    if not isinstance(right, SetObject):
        return None
    table, others = combined(vm, difference, left.open(vm), right.open(vm)), right.open(vm)
    if left.is_unseen():
        if len(table) > 1 or len(left.open(vm)) >> 2 > len(others):
            return None
        return SetObject(table, left.family, layout=laid_out(EMPTY, set.update, stand_ins(table)))
    if not right.is_unseen():
        return None
    like = SetObject(dict(others), layout=laid_out(EMPTY, set.update, stand_ins(others)))
    return SetObject(table, left.family, layout=laid_out(None, left.family.difference, left.operand(vm), like.operand(vm)))


def updating(name: str) -> Callable[..., Object]:
    """The model of `a.update(...)` and its kind."""
    operate, update = OPERATIONS[name][0], getattr(set, UPDATES[name])

    def model(vm: VM, self: SetObject, *others: Object) -> Object:
        self.open(vm)
        for other in map(vm.observe, others):
            if operate in (union, difference) and not isinstance(other, SetObject) and other.cls is not dict:
                for item in map(vm.observe, abstract.each(vm, other)):
                    self.add(vm, item) if operate is union else self.remove(vm, abstract.set_element(vm, item))
                if operate is difference:
                    self.step(vm, update, [])  # a table with many deleted entries is finally made smaller
            else:
                elements, arg = changing(vm, self, other)
                self.replace(vm, combined(vm, operate, self.open(vm), elements), update, arg)
        return NONE

    return model


def updating_at_last(name: str) -> Callable[..., Object]:
    """The model of `a.intersection_update(...)`, which changes nothing before it has gone through all operands."""

    def model(vm: VM, self: SetObject, *others: Object) -> Object:
        table, args = with_others(vm, OPERATIONS[name][0], self, others)
        args = [ITSELF if vm.observe(other) is self else arg for other, arg in zip(others, args)]
        self.replace(vm, table, getattr(set, UPDATES[name]), *args)
        return NONE

    return model


def operator_of(name: str, reflected: bool) -> Callable[..., Object]:
    """The model of `a | b` and its kind: sets only."""
    operate, short = OPERATIONS[name]

    def model(vm: VM, self: SetObject, other: Object) -> Object:
        other = vm.observe(other)
        if not isinstance(other, SetObject):
            return NOT_IMPLEMENTED
        left, right = (other, self) if reflected else (self, other)
        found = difference_of_unseen(vm, left, right) if operate is difference else None
        if found is not None:
            return found
        layout = laid_out(None, getattr(left.family, f"__{short}__"), left.operand(vm), right.operand(vm))
        return SetObject(combined(vm, operate, left.open(vm), right.open(vm)), left.family, layout=layout)

    return model


def inplace(name: str) -> Callable[..., Object]:
    """The model of `a |= b` and its kind."""
    operate, short = OPERATIONS[name]

    def model(vm: VM, self: SetObject, other: Object) -> Object:
        other = vm.observe(other)
        if not isinstance(other, SetObject):
            return NOT_IMPLEMENTED
        elements, arg = changing(vm, self, other)
        self.replace(vm, combined(vm, operate, self.open(vm), elements), getattr(set, f"__i{short}__"), arg)
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
    for _name, (_, _short) in OPERATIONS.items():
        models(getattr(_cls, _name))(of_one(method(_name)) if _name == "symmetric_difference" else method(_name))
        models(getattr(_cls, f"__{_short}__"))(operator_of(_name, False))
        models(getattr(_cls, f"__r{_short}__"))(operator_of(_name, True))
    for _name, _symbol in COMPARISONS.items():
        models(getattr(_cls, _name))(comparison(_symbol))
for _name, _update in UPDATES.items():
    _model = updating_at_last(_name) if _name == "intersection" else updating(_name)
    models(getattr(set, _update))(of_one(_model) if _name == "symmetric_difference" else _model)
    models(getattr(set, f"__i{OPERATIONS[_name][1]}__"))(inplace(_name))
update = updating("union")


@models(set)
def make_set(vm: VM, iterable: Object | None = None) -> SetObject:
    if iterable is None:
        return SetObject({}, layout=SetLayout(None, set))
    table, arg = operand(vm, iterable)
    layout, original = laid_out(EMPTY, set.update, arg), vm.observe(iterable)
    return original.copy_as(vm, set, layout) if isinstance(original, SetObject) else SetObject(dict(table), layout=layout)


@models(frozenset)
def make_frozenset(vm: VM, iterable: Object | None = None) -> Object:
    if iterable is not None and vm.observe(iterable).cls is frozenset:
        return vm.observe(iterable)
    return new_frozenset(vm, frozenset, iterable)


def new_frozenset(vm: VM, cls: type, iterable: Object | None) -> Object:
    """A new instance of frozenset or a subclass."""
    if iterable is None:
        return SetObject({}, cls, layout=SetLayout(None, frozenset))
    table, arg = operand(vm, iterable)
    is_frozen = isinstance(arg, SetObject) and arg.family is frozenset
    layout, original = laid_out(None, frozenset.union if is_frozen else frozenset, arg), vm.observe(iterable)
    if isinstance(original, SetObject) and cls is frozenset:
        return original.copy_as(vm, cls, layout)
    return SetObject(dict(table), cls, layout=layout)


@models(set.__new__)
def set_new(vm: VM, cls: Object, /, *args: Object, **kwargs: Object) -> Object:
    return SetObject({}, abstract.class_to_make(vm, cls), layout=SetLayout(None, set))


@models(frozenset.__new__)
def frozenset_new(vm: VM, cls: Object, iterable: Object | None = None) -> Object:
    return new_frozenset(vm, abstract.class_to_make(vm, cls), iterable)


@models(set.__init__)
def set_init(vm: VM, self: SetObject, iterable: Object | None = None) -> Object:
    if self.open(vm):
        self.replace(vm, {}, set.clear)
    return NONE if iterable is None else update(vm, self, iterable)


@models(set.add)
def add(vm: VM, self: SetObject, item: Object) -> Object:
    self.add(vm, item)
    return NONE


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
    if not self.open(vm):
        vm.raise_(KeyError, "pop from an empty set")
    return self.pop(vm)


@models(set.clear)
def clear(vm: VM, self: SetObject) -> Object:
    self.replace(vm, {}, set.clear)
    return NONE


@models(set.copy)
def copy(vm: VM, self: SetObject) -> Object:
    return self.copy_as(vm, set, laid_out(None, set.copy, self.operand(vm)))


@models(frozenset.copy)
def frozen_copy(vm: VM, self: SetObject) -> Object:
    return self if self.cls is frozenset else new_frozenset(vm, frozenset, self)


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
    other = vm.observe(other)
    if isinstance(other, SetObject) or other.cls is dict or not differences.SUBSETS_STOP_EARLY:
        return compare_sets(vm, "<=", self.open(vm), table_of(vm, other, lambda vm, item: item.hash_key(vm)))
    found = set()
    for item in abstract.each(vm, other):
        key = vm.observe(item).hash_key(vm)
        if self.holds(vm, key):
            found.add(key)
            if len(found) == len(self.open(vm)):
                return vm.const(True)
    return vm.const(len(found) == len(self.open(vm)))


@models(set.issuperset, frozenset.issuperset)
def issuperset(vm: VM, self: SetObject, other: Object) -> Object:
    other = vm.observe(other)
    if isinstance(other, SetObject):
        return compare_sets(vm, ">=", self.open(vm), table_of(vm, other))
    return vm.const(all(self.holds(vm, abstract.set_element(vm, item)) for item in abstract.each(vm, other)))


@models(set.isdisjoint, frozenset.isdisjoint)
def isdisjoint(vm: VM, self: SetObject, other: Object) -> Object:
    """set_isdisjoint, which iterates over an instance of a subclass like over any iterable."""
    other = vm.observe(other)
    if isinstance(other, SetObject) and (other.cls is other.family or other is self):
        return vm.const(not combined(vm, intersection, self.open(vm), table_of(vm, other)))
    return vm.const(all(not self.holds(vm, abstract.set_element(vm, item)) for item in abstract.each(vm, other)))


@models(frozenset.__hash__)
def hash_frozenset(vm: VM, self: SetObject) -> Object:
    return vm.const(frozenset.__hash__(self.constant(vm)))


def shown(vm: VM, self: SetObject) -> list[Object]:
    """The elements that a set's repr shows."""
    return self.items(vm) if differences.REPR_OF_STORED else abstract.list_of(vm, self)


@models(set.__repr__, frozenset.__repr__)
def render(vm: VM, self: SetObject) -> Object:
    name = typefields.name_of(vm, self.cls)
    if not self.open(vm):
        return vm.const(f"{name}()")
    if text.is_being_rendered(self):
        return vm.const(f"{name}(...)")
    body = text.repr_of_items(vm, self, "{}", lambda: [text.real_repr(vm, item) for item in shown(vm, self)])
    return body if self.cls is set else vm.const(f"{name}({body.constant(vm)})")
