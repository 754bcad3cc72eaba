"""frozendict, which Python has from 3.15 on: one from outside never changes, so its identity determines what it holds."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from framejit.guards.source import Source
from framejit.objects.core import abstract, operators
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models, wraps
from framejit.objects.types.constobject import NONE
from framejit.objects.types.mappingproxy import MappingProxyObject, proxied

frozendict: Any = getattr(builtins, "frozendict", None)


def wrap_frozen(vm: VM, value: Any, source: Source | None) -> Object:
    """Wrap a frozendict: what it holds is read from a dict that only the trace knows."""
    return MappingProxyObject(frozendict, vm.pin(dict(value)), source, value)


def get(vm: VM, self: MappingProxyObject, key: Object, default: Object = NONE) -> Object:
    return self.get(vm, key, default)


def getitem(vm: VM, self: MappingProxyObject, key: Object) -> Object:
    return abstract.getitem(vm, self.contents(vm), key)


def contains(vm: VM, self: MappingProxyObject, key: Object) -> Object:
    return operators.contains(vm, self.contents(vm), key)


def length(vm: VM, self: MappingProxyObject) -> Object:
    return self.length(vm)


def iterate(vm: VM, self: MappingProxyObject) -> Object:
    return self.iter(vm)


READS: dict[str, Callable[..., Object]] = {"get": get, "__getitem__": getitem, "__contains__": contains, "__len__": length, "__iter__": iterate}
READS |= {name: proxied(name) for name in ("keys", "values", "items", "__reversed__")}

if frozendict is not None:
    wraps(frozendict, by_identity=True)(wrap_frozen)
    for _name, _model in READS.items():
        models(getattr(frozendict, _name))(_model)
