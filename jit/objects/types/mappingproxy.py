"""Mapping proxies (Objects/descrobject.c): reads go to the mapping."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from framejit.guards.source import MISSING, Source
from framejit.objects.core import abstract, differences, operators
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.core.registry import models, wraps
from framejit.objects.types.constobject import NONE
from framejit.program import classes


class MappingProxyObject(Object):
    """`types.MappingProxyType(mapping)`: reads go to the mapping."""

    __slots__ = ("mapping",)

    def __init__(self, cls: type, mapping: Object, source: Source | None = None, value: Any = MISSING) -> None:
        super().__init__(cls, source, value)
        self.mapping = mapping

    def contents(self, vm: VM) -> Object:
        """The mapping."""
        return self.mapping

    def get(self, vm: VM, key: Object, default: Object) -> Object:
        return abstract.call_method(vm, self.mapping, "get", key, default)

    def has(self, vm: VM, key: Object) -> Object:
        return operators.contains(vm, self.mapping, key)

    def iter(self, vm: VM) -> Object:
        return vm.observe(self.contents(vm)).iter(vm)

    def truth(self, vm: VM) -> bool:
        return vm.observe(self.contents(vm)).truth(vm)

    def length(self, vm: VM) -> Object:
        return vm.observe(self.contents(vm)).length(vm)

    def length_hint(self, vm: VM) -> int | None:
        """The length of the mapping."""
        return int(self.length(vm).constant(vm))

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.mapping)
        cg.call_const(self.cls, 1)

    def referents(self) -> list[Object]:
        return [self.mapping]


@wraps(MappingProxyType, by_identity=True)
def wrap_proxy(vm: VM, value: Any, source: Source | None) -> Object:
    """Wrap a mapping proxy. It never changes its mapping, so its identity determines the mapping."""
    mapping = gc.get_referents(value)[0]
    return MappingProxyObject(MappingProxyType, vm.pin(mapping), source, value)


@models(MappingProxyType)
def make_proxy(vm: VM, mapping: Object) -> Object:
    cls = vm.observe(mapping).cls
    if vm.raw_type_lookup(cls, "__getitem__") is MISSING or issubclass(cls, (list, tuple)):
        vm.raise_(TypeError, f"mappingproxy() argument must be a mapping, not {vm.observe(mapping).type_name}")
    return MappingProxyObject(MappingProxyType, mapping)


def proxied(name: str) -> Callable[..., Object]:
    """The model of a method of mappingproxy: it calls the same method of the mapping."""

    def model(vm: VM, self: MappingProxyObject, *args: Object) -> Object:
        return abstract.call_method(vm, self.contents(vm), name, *args)

    return model


for _name in ("keys", "values", "items", "copy", "__reversed__"):
    models(getattr(MappingProxyType, _name))(proxied(_name))


@models(MappingProxyType.get)
def proxy_get(vm: VM, self: MappingProxyObject, key: Object, default: Object = NONE) -> Object:
    return self.get(vm, key, default)


@models(MappingProxyType.__getitem__)
def proxy_getitem(vm: VM, self: MappingProxyObject, key: Object) -> Object:
    return self.getitem(vm, key) or abstract.getitem(vm, self.contents(vm), key)


@models(MappingProxyType.__contains__)
def proxy_contains(vm: VM, self: MappingProxyObject, key: Object) -> Object:
    return self.has(vm, key)


@models(MappingProxyType.__len__)
def proxy_length(vm: VM, self: MappingProxyObject) -> Object:
    return self.length(vm)


@models(MappingProxyType.__iter__)
def proxy_iter(vm: VM, self: MappingProxyObject) -> Object:
    return self.iter(vm)


def underlying(vm: VM, obj: Object) -> Object:
    """The mapping of a proxy; other values as they are."""
    obj = vm.observe(obj)
    return obj.contents(vm) if isinstance(obj, MappingProxyObject) else obj


@models(MappingProxyType.__or__)
def proxy_or(vm: VM, self: MappingProxyObject, other: Object) -> Object:
    """mappingproxy_or: the mappings are combined with their own `|`."""
    return operators.binary_op(vm, "|", self.contents(vm), underlying(vm, other))


@models(MappingProxyType.__ror__)
def proxy_ror(vm: VM, self: MappingProxyObject, other: Object) -> Object:
    return operators.binary_op(vm, "|", underlying(vm, other), self.contents(vm))


def compared(symbol: str) -> Callable[..., Object]:
    """Objects/descrobject.c: mappingproxy_richcompare: the mapping itself is compared, as `==` would, or a copy of it if the other may keep or change it."""

    def model(vm: VM, self: MappingProxyObject, other: Object) -> Object:
        mapping = self.contents(vm)
        copied = differences.COMPARES_COPIES and mapping.cls is dict and classes.can_change(vm.observe(other).cls)
        return operators.compare(vm, symbol, abstract.call(vm, vm.const(dict), [mapping]) if copied else mapping, other)

    return model


for _name, _symbol in (("__eq__", "=="), ("__ne__", "!=")):
    models(getattr(MappingProxyType, _name))(compared(_symbol))
