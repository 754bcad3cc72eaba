"""functools.lru_cache of functions in compiled code: the trace itself keeps the results, as long as the cache doesn't outlive it."""

from __future__ import annotations

from typing import Any

from framejit import breaks
from framejit.guards.caches import BEFORE_NAMES, CachedFunction
from framejit.guards.source import MISSING
from framejit.objects.core import abstract
from framejit.objects.core.addresses import tell_keys_apart
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.core.registry import models
from framejit.objects.types.constobject import NONE
from framejit.objects.types.dictobject import attr_values, fill_attrs, has_attrs
from framejit.objects.types.funcobject import MethodObject

CACHE: Any = CachedFunction


class MadeCache(Object):
    """A function under lru_cache that the trace has made. `table`: its results by the hash keys of calls, in the order of their last use if `maxsize` is a
    number. `info`: the class of what `cache_info()` returns."""

    __slots__ = ("vm", "place", "function", "maxsize", "typed", "info", "table", "hits", "misses")
    has_dict = True

    def __init__(self, vm: VM, function: Object, maxsize: int | None, typed: bool, info: Object) -> None:
        super().__init__(CachedFunction)
        self.vm = vm
        self.place = vm.place()
        self.function = function
        self.maxsize = maxsize
        self.typed = typed
        self.info = info
        self.table: dict[Any, Object] = {}
        self.hits = self.misses = 0

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        """Modules/_functoolsmodule.c: uncached_lru_cache_wrapper, infinite_lru_cache_wrapper, bounded_lru_cache_wrapper."""
        key = self.key(vm, args, kwargs) if self.maxsize != 0 else None
        found = self.table.get(key)
        if found is not None:
            vm.trail.set(self, "hits", self.hits + 1)
            if self.maxsize is not None:
                vm.trail.set(self, "table", {other: kept for other, kept in self.table.items() if other != key} | {key: found})
            return found
        tell_keys_apart(vm, key, self.table)
        vm.trail.set(self, "misses", self.misses + 1)
        result = abstract.call(vm, self.function, args, kwargs)
        if self.maxsize is None:
            vm.trail.set(self, "table", self.table | {key: result})
        elif self.maxsize > 0 and key not in self.table:
            kept = dict(self.table)
            if len(kept) == self.maxsize:
                del kept[next(iter(kept))]
            vm.trail.set(self, "table", kept | {key: result})
        return result

    def key(self, vm: VM, args: list[Object], kwargs: dict[str, Object]) -> Any:
        """lru_cache_make_key: a single argument that is exactly a str or an int stands for itself, so that 1 and True are different calls, but not (1, 1) and
        (True, 1)."""
        given = list(map(vm.observe, args))
        if len(given) == 1 and not kwargs and not self.typed and given[0].cls in (str, int):
            return given[0].hash_key(vm)
        parts = [arg.hash_key(vm) for arg in given]
        if kwargs:
            parts += [BEFORE_NAMES, *(part for name, arg in kwargs.items() for part in (name, vm.observe(arg).hash_key(vm)))]
        if self.typed:
            parts += [id(vm.observe(arg).cls) for arg in (*args, *kwargs.values())]
        return tuple(parts)

    def clear(self, vm: VM) -> None:
        """Forget all results, and how often they were asked for."""
        vm.trail.set(self, "table", {})
        vm.trail.set(self, "hits", 0)
        vm.trail.set(self, "misses", 0)

    def descriptor_get(self, vm: VM, obj: Object | None, cls: type, delivery: Delivery | None = None) -> Object:
        return self if obj is None else MethodObject(self, obj)

    def hash_key(self, vm: VM) -> Any:
        return self.identity_key(vm)

    def reconstruct(self, cg: Codegen) -> None:
        if self.hits or self.misses:
            self.vm.restart(self.place, breaks.UnsupportedCall("functools.lru_cache of a function whose results outlive the call, or a graph break"))
        cg.load(self.function)
        cg.load_const(self.maxsize)
        cg.load_const(self.typed)
        cg.load(self.info)
        cg.call_const(CachedFunction, 4)

    def needs_fill(self) -> bool:
        return has_attrs(self)

    def fill(self, cg: Codegen) -> None:
        fill_attrs(cg, self)

    def referents(self) -> list[Object]:
        return [self.function, self.info, *self.table.values(), *attr_values(self)]


@models(CACHE.__new__)
def cache_new(vm: VM, cls: Object, user_function: Object, maxsize: Object, typed: Object, cache_info_type: Object) -> Object:
    """lru_cache_new. Arguments other than those that functools gives are left to it."""
    function, size, by_type = vm.observe(user_function), vm.observe(maxsize), vm.observe(typed)
    are_plain = size.cls in (int, type(None)) and by_type.cls is bool
    if vm.observe(cls).constant(vm) is not CachedFunction or not are_plain or vm.raw_type_lookup(function.cls, "__call__") is MISSING:
        vm.unsupported(breaks.UnsupportedCall(f"functools.lru_cache of {function!r}"))
    return MadeCache(vm, function, size.constant(vm), by_type.constant(vm), cache_info_type)


@models(CACHE.cache_info)
def cache_info(vm: VM, self: Object) -> Object:
    cache = made(vm, self)
    return abstract.call(vm, cache.info, [vm.const(number) for number in (cache.hits, cache.misses, cache.maxsize, len(cache.table))])


@models(CACHE.cache_clear)
def cache_clear(vm: VM, self: Object) -> Object:
    made(vm, self).clear(vm)
    return NONE


def made(vm: VM, cache: Object) -> MadeCache:
    """The cache, if the trace has made it."""
    if not isinstance(cache, MadeCache):
        vm.unsupported(breaks.UnsupportedCall("a method of a cache of functools.lru_cache from outside"))
    return cache


@models(CACHE.__copy__, CACHE.__deepcopy__)
def itself(vm: VM, self: Object, memo: Object | None = None) -> Object:
    return self
