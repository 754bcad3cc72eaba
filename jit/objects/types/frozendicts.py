"""frozendict, which Python has from 3.15 on: one from outside never changes, so its identity determines what it holds."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from framejit.guards.source import Source
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models, wraps
from framejit.objects.types.mappingproxy import (
    MappingProxyObject,
    proxied,
    proxy_contains,
    proxy_get,
    proxy_getitem,
    proxy_iter,
    proxy_length,
)

frozendict: Any = getattr(builtins, "frozendict", None)


def wrap_frozen(vm: VM, value: Any, source: Source | None) -> Object:
    """Wrap a frozendict: what it holds is read from a dict that only the trace knows."""
    return MappingProxyObject(frozendict, vm.pin(dict(value)), source, value)


READS: dict[str, Callable[..., Object]] = {
    "get": proxy_get, "__getitem__": proxy_getitem, "__contains__": proxy_contains, "__len__": proxy_length, "__iter__": proxy_iter,
    **{name: proxied(name) for name in ("keys", "values", "items", "__reversed__")},
}  # fmt: skip
"""The models of its methods: those of mapping proxies."""

if frozendict is not None:
    wraps(frozendict, by_identity=True)(wrap_frozen)
    for _name, _model in READS.items():
        models(getattr(frozendict, _name))(_model)
