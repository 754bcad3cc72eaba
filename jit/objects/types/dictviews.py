"""Views of dicts: keys, values and items, with their set operations."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from framejit import breaks
from framejit.guards.container_sources import ViewedDict
from framejit.guards.source import MISSING, Source
from framejit.objects.core import abstract, operators, text
from framejit.objects.core.hash_keys import check_settled
from framejit.objects.core.object import VM, Codegen, Object, unhashable
from framejit.objects.core.registry import models, wraps
from framejit.objects.types.constobject import NOT_IMPLEMENTED
from framejit.objects.types.dictobject import ITEMS, KEYS, VALUES, DictIterator, DictObject, Entry, storage_of, view_item
from framejit.objects.types.mappingproxy import MappingProxyObject
from framejit.objects.types.numbereddict import PlaceIterator, goes_by_place
from framejit.objects.types.sequence import COMPARISONS
from framejit.objects.types.setmethods import make_set
from framejit.objects.types.setobject import SetObject, set_of
from framejit.objects.types.tupleobject import TupleObject
from framejit.program import classes

VIEW_TYPES: dict[tuple[type, str], Any] = {
    (family, kind): type(getattr(family(), kind)()) for family in (dict, OrderedDict) for kind in (KEYS, VALUES, ITEMS)
}


class DictView(Object):
    """dict_keys, dict_values or dict_items of a dict. `storage`: OrderedDict if it is a view of that, which goes by its order, or else dict."""

    __slots__ = ("mapping", "kind", "storage")

    def __init__(self, mapping: DictObject, kind: str, storage: type | None = None, source: Source | None = None, value: Any = MISSING) -> None:
        self.storage = storage or storage_of(mapping)
        super().__init__(VIEW_TYPES[self.storage, kind], source, value)
        self.mapping = mapping
        self.kind = kind

    def entries(self, vm: VM) -> dict[Any, Entry]:
        """The entries of the dict that iterating over the view passes."""
        return self.mapping.in_order_of(vm, self.storage)

    def items(self, vm: VM) -> list[Object]:
        """The items that iterating over the view gives."""
        return [view_item(vm, self.kind, entry) for entry in self.entries(vm).values()]

    def iter(self, vm: VM) -> Object:
        if self.storage is OrderedDict and goes_by_place(self.mapping):
            return PlaceIterator(vm, self.mapping, self.kind)
        return DictIterator(vm, self.mapping, self.kind, storage=self.storage)

    def truth(self, vm: VM) -> bool:
        return bool(self.mapping.stored(vm))

    def length(self, vm: VM) -> Object:
        return vm.const(len(self.mapping.stored(vm)))

    def hash_key(self, vm: VM) -> Any:
        if self.kind is not VALUES:
            unhashable(vm, self.type_name)
        return self.identity_key(vm)

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.mapping)
        cg.call_const(getattr(self.storage, self.kind), 1)

    def referents(self) -> list[Object]:
        return [self.mapping]


@wraps(*VIEW_TYPES.values(), shared=True)
def wrap_view(vm: VM, value: Any, source: Source) -> Object:
    """Wrap a view from outside, whose dict the guards find through it."""
    dict_source = source.child(ViewedDict)
    mapping = vm.observe(vm.wrap(dict_source.step(value), dict_source))
    if not isinstance(mapping, DictObject):
        vm.unsupported(breaks.UnsupportedValue(f"a {classes.name(type(value))} made outside the compiled function"))
    storage, kind = next(key for key, cls in VIEW_TYPES.items() if cls is type(value))
    return DictView(mapping, kind, storage, source, value)


@models(*[view.__len__ for view in VIEW_TYPES.values()])
def view_length(vm: VM, self: DictView) -> Object:
    return self.length(vm)


@models(*[view.__iter__ for view in VIEW_TYPES.values()])
def view_iter(vm: VM, self: DictView) -> Object:
    return self.iter(vm)


@models(*[view.__reversed__ for view in VIEW_TYPES.values()])
def view_reversed(vm: VM, self: DictView) -> Object:
    return DictIterator(vm, self.mapping, self.kind, True, self.storage)


@models(*[view.__repr__ for view in VIEW_TYPES.values()])
def view_repr(vm: VM, self: DictView) -> Object:
    if text.is_being_rendered(self):
        return vm.const("...")
    body = text.repr_of_items(vm, self, "[]", lambda: [text.real_repr(vm, item) for item in self.items(vm)])
    return vm.const(f"{classes.name(self.cls)}({body.constant(vm)})")


@models(*[view.mapping for view in VIEW_TYPES.values()])
def view_mapping(vm: VM, self: DictView) -> Object:
    return MappingProxyObject(MappingProxyType, self.mapping)


dict_keys, dict_items = VIEW_TYPES[dict, KEYS], VIEW_TYPES[dict, ITEMS]


def hash_keys(vm: VM, view: DictView) -> list[Any]:
    """The hash keys of the elements of a view of keys or items."""
    check_settled(view.entries(vm))
    if view.kind is KEYS:
        return list(view.entries(vm))
    return [(key, vm.observe(value).hash_key(vm)) for key, (_, value) in view.entries(vm).items()]


@models(dict_keys.__contains__)
def keys_contains(vm: VM, self: DictView, item: Object) -> Object:
    return vm.const(self.mapping.has(vm, item))


@models(dict_items.__contains__)
def items_contains(vm: VM, self: DictView, item: Object) -> Object:
    pair = vm.observe(item)
    parts = pair.items(vm) if isinstance(pair, TupleObject) else []
    if len(parts) != 2:
        return vm.const(False)
    found = self.mapping.get_item(vm, parts[0])
    return vm.const(found is not None and operators.equal(vm, found, parts[1]))


def elements(vm: VM, obj: Object) -> set[Any] | None:
    """The hash keys of a set, frozenset or view of keys or items; None for anything else."""
    if isinstance(obj, SetObject):
        return set(obj.open(vm))
    if isinstance(obj, DictView) and obj.kind is not VALUES:
        return set(hash_keys(vm, obj))
    return None


def view_comparison(symbol: str) -> Callable[..., Object]:
    """The model of a comparison of views (dictview_richcompare): by their lengths, then by looking up each element, which is never hashed."""

    def model(vm: VM, self: DictView, other: Object) -> Object:
        other = vm.observe(other)
        if not is_like_a_set(other):
            return NOT_IMPLEMENTED
        mine, theirs = (int(abstract.length(vm, view).constant(vm)) for view in (self, other))
        if symbol in ("==", "!="):
            return vm.const((mine == theirs and holds_all(vm, other, self)) == (symbol == "=="))
        fits = {"<": mine < theirs, "<=": mine <= theirs, ">": mine > theirs, ">=": mine >= theirs}[symbol]
        return vm.const(fits and (holds_all(vm, other, self) if "<" in symbol else holds_all(vm, self, other)))

    return model


def is_like_a_set(obj: Object) -> bool:
    """Return whether this is a set, a frozenset, or a view of keys or items."""
    return isinstance(obj, SetObject) or (isinstance(obj, DictView) and obj.kind is not VALUES)


def holds_all(vm: VM, container: Object, elements: Object) -> bool:
    """all_contained_in: whether a container holds all the elements."""
    return all(abstract.truth(vm, operators.contains(vm, container, element)) for element in abstract.each(vm, elements))


def view_operation(name: str, reflected: bool) -> Callable[..., Object]:
    """The model of `|`, `-`, `^` with a view on one side (dictviews_sub): a set made from the left operand, which is then updated by the right one."""

    def model(vm: VM, self: DictView, other: Object) -> Object:
        left, right = (vm.observe(other), self) if reflected else (self, vm.observe(other))
        if name == "symmetric_difference_update" and isinstance(left, DictView) and isinstance(right, DictView) and left.kind == right.kind == ITEMS:
            return items_in_one(vm, left, right)
        fast = isinstance(left, DictView) and left.kind is KEYS and left.mapping.cls is dict
        made = make_set(vm, left.mapping if fast and isinstance(left, DictView) else left)
        abstract.call_method(vm, made, name, right)
        return made

    return model


def items_in_one(vm: VM, left: DictView, right: DictView) -> Object:
    """dictitems_xor: the items that only the right view has, then those that only the left one has."""
    mine, theirs = hash_keys(vm, left), hash_keys(vm, right)
    new = [item for key, item in zip(theirs, right.items(vm)) if key not in set(mine)]
    return set_of(vm, new + [item for key, item in zip(mine, left.items(vm)) if key not in set(theirs)])


def intersection(vm: VM, self: DictView, other: Object) -> Object:
    """The model of `&`, with the view on either side (_PyDictView_Intersect): gives the elements of the operand that it iterates over."""
    other = vm.observe(other)
    keys = set(hash_keys(vm, self))
    if isinstance(other, SetObject) and other.cls is set and len(keys) <= len(other.open(vm)):
        return abstract.call_method(vm, other, "intersection", self)
    if isinstance(other, DictView) and other.kind is not VALUES and len(theirs := set(hash_keys(vm, other))) > len(keys):
        other, keys = self, theirs
    return set_of(vm, [item for item in map(vm.observe, abstract.each(vm, other)) if abstract.dict_key(vm, item) in keys])


OPERATIONS = {"or": "update", "sub": "difference_update", "xor": "symmetric_difference_update"}
for _view in (dict_keys, dict_items):
    for _name, _symbol in COMPARISONS.items():
        models(getattr(_view, _name))(view_comparison(_symbol))
    for _name, _method in OPERATIONS.items():
        models(getattr(_view, f"__{_name}__"))(view_operation(_method, False))
        models(getattr(_view, f"__r{_name}__"))(view_operation(_method, True))

    models(_view.__and__, _view.__rand__)(intersection)

    @models(_view.isdisjoint)
    def isdisjoint(vm: VM, self: DictView, other: Object) -> Object:
        """dictviews_isdisjoint."""
        other = vm.observe(other)
        if other is self:
            return vm.const(not self.items(vm))
        holder: Object = self
        if is_like_a_set(other) and abstract.length(vm, other).constant(vm) > abstract.length(vm, self).constant(vm):
            holder, other = other, self
        return vm.const(not any(abstract.truth(vm, operators.contains(vm, holder, item)) for item in abstract.each(vm, other)))
