"""Methods of dict that are called on an OrderedDict: they pass over the order that it keeps beside its dict (Objects/odictobject.c).

    dict.update(ordered, b=2)      # `b` is in the dict, and `ordered["b"]` finds it; iterating over `ordered` does not come to it
    ordered["b"] = 3               # now it does, and last

A key that only the dict has is `past` the order. Removing a key that the order has from the dict alone leaves an order with which most methods fail, which no
trace models.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from framejit import breaks
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import Model, around
from framejit.objects.types.constobject import NONE
from framejit.objects.types.dictobject import ITEMS, KEYS, VALUES, DictIterator, DictObject
from framejit.objects.types.dictviews import DictView


def on_ordered(name: str) -> Callable[[Model], Model]:
    """Register a model of a method of dict for instances of OrderedDict. It is given the model for other dicts as `own`."""

    def register(model: Model) -> Model:
        def chosen(vm: VM, self: Object, /, *args: Object, own: Model, **kwargs: Object) -> Object:
            if isinstance(self, DictObject) and self.family is OrderedDict:
                return model(vm, self, *args, own=own, **kwargs)
            return own(vm, self, *args, **kwargs)

        around(getattr(dict, name))(chosen)
        return model

    return register


@on_ordered("__setitem__")
def setitem(vm: VM, self: DictObject, key: Object, value: Object, own: Model) -> Object:
    self.set_by_dict(vm, key, value)
    return NONE


@on_ordered("setdefault")
def setdefault(vm: VM, self: DictObject, key: Object, default: Object = NONE, *, own: Model) -> Object:
    found = self.get_item(vm, key)
    if found is not None:
        return found
    self.set_by_dict(vm, key, default)
    return default


def removal(name: str) -> Model:
    """The model of a method that removes one key from the dict alone, which must not be in the order."""

    def model(vm: VM, self: DictObject, key: Object, *args: Object, own: Model) -> Object:
        hash_key = self.hash_key_of(vm, vm.observe(key))
        if self.lookup(vm, hash_key) is not None and not self.is_past(hash_key):
            unmodelled(vm, name)
        return own(vm, self, key, *args)

    return model


def removal_of_any(name: str) -> Model:
    """The model of a method that removes any keys from the dict alone, which must be empty."""

    def model(vm: VM, self: DictObject, own: Model) -> Object:
        if self.stored(vm):
            unmodelled(vm, name)
        return own(vm, self)

    return model


def unmodelled(vm: VM, name: str) -> None:
    """Break: the order of an OrderedDict would have a key that the dict no longer has."""
    vm.unsupported(breaks.UnsupportedCall(f"dict.{name} of a key that is in the order of an OrderedDict"))


for _name in ("__delitem__", "pop"):
    on_ordered(_name)(removal(_name))
for _name in ("clear", "popitem"):
    on_ordered(_name)(removal_of_any(_name))


def view(kind: str) -> Model:
    """The model of `dict.keys(ordered)`, `dict.values(ordered)` or `dict.items(ordered)`, which go by the order of the dict."""

    def model(vm: VM, self: DictObject, own: Model) -> Object:
        return DictView(self, kind, dict)

    return model


for _kind in (KEYS, VALUES, ITEMS):
    on_ordered(_kind)(view(_kind))


@on_ordered("__iter__")
def iterate(vm: VM, self: DictObject, own: Model) -> Object:
    return DictIterator(vm, self, KEYS, storage=dict)


@on_ordered("__reversed__")
def backwards(vm: VM, self: DictObject, own: Model) -> Object:
    return DictIterator(vm, self, KEYS, True, dict)
