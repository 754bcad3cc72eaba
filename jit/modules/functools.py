"""functools: partial objects, cached functions, and the C functions among its tools."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from framejit import breaks
from framejit.guards.source import MISSING, CAttr, Source
from framejit.modules.app import functools as plain
from framejit.objects import abstract
from framejit.objects.dictobject import DictObject, fill_attrs, has_attrs
from framejit.objects.funcobject import MethodObject
from framejit.objects.object import Object
from framejit.objects.registry import app, models, wraps
from framejit.objects.tupleobject import TupleObject

if TYPE_CHECKING:
    from framejit.objects.vm import VM, Codegen

app(functools.reduce)(plain.reduce)
app(functools.cmp_to_key)(plain.cmp_to_key)
app(functools.cached_property.__get__)(plain.cached_property_get)


class PartialObject(Object):
    """functools.partial: function, positional and keyword arguments."""

    __slots__ = ("function", "args", "keywords")

    def __init__(
        self, cls: type, function: Object, args: Object, keywords: Object, source: Source | None = None, value: Any = MISSING
    ) -> None:
        super().__init__(cls, source, value)
        self.function = function
        self.args = args
        self.keywords = keywords

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object]) -> Object:
        if self.cls is not functools.partial:
            return super().call(vm, args, kwargs)
        return call_partial(vm, self, *args, **kwargs)

    def instance_dict(self, vm: VM) -> DictObject | None:
        if self.attrs is None:
            self.attrs = vm.instance_dict_of(self)
        return self.attrs

    def get_slot(self, vm: VM, member: Any) -> Object:
        return {"func": self.function, "args": self.args, "keywords": self.keywords}[member.__name__]

    def reconstruct(self, cg: Codegen) -> None:
        for part in (self.function, self.args, self.keywords):
            cg.load(part)
        cg.load_const(self.cls)
        cg.call_const(rebuilt_partial, 4)

    def needs_fill(self) -> bool:
        return has_attrs(self)

    def fill(self, cg: Codegen) -> None:
        fill_attrs(cg, self)

    def referents(self) -> list[Object]:
        attrs = [value for _, value in self.attrs.entries.values()] if has_attrs(self) and self.attrs is not None else []
        return [self.function, self.args, self.keywords, *attrs]


def rebuilt_partial(function: Any, args: tuple[Any, ...], keywords: dict[str, Any], cls: type) -> Any:
    """Run by generated code."""
    return functools.partial.__new__(cls, function, *args, **keywords)


@wraps(functools.partial, shared=True)
def wrap_partial(vm: VM, value: Any, source: Source) -> PartialObject:
    """A partial object from outside: its parts are looked at when it is called."""
    parts = [vm.wrap(getattr(value, name), source.child(CAttr, name)) for name in ("func", "args", "keywords")]
    return PartialObject(type(value), parts[0], parts[1], parts[2], source, value)


@models(functools.partial.__call__)
def call_partial(vm: VM, self: PartialObject, *args: Object, **kwargs: Object) -> Object:
    """Modules/_functoolsmodule.c: partial_call."""
    held = vm.observe(self.args)
    assert isinstance(held, TupleObject)
    named = {vm.observe(key).constant(vm): value for key, value in vm.mapping_items(self.keywords)}
    return abstract.call(vm, self.function, [*held.items(vm), *args], named | kwargs)


@models(functools.partial.__new__)
def partial_new(vm: VM, cls: Object, function: Object, *args: Object, **kwargs: Object) -> Object:
    """Modules/_functoolsmodule.c: partial_new, which takes a partial of a partial apart."""
    function = vm.observe(function)
    held, named = list(args), [(vm.const(name), value) for name, value in kwargs.items()]
    if isinstance(function, PartialObject) and function.cls is functools.partial:
        inner = vm.observe(function.args)
        assert isinstance(inner, TupleObject)
        held = [*inner.items(vm), *held]
        named = [*vm.mapping_items(function.keywords), *named]
        function = vm.observe(function.function)
    elif vm.raw_type_lookup(function.cls, "__call__") is MISSING:
        vm.raise_(TypeError, "the first argument must be callable")
    return PartialObject(vm.observe(cls).constant(vm), function, vm.new_tuple(held), vm.new_dict(named))


@models(functools.partial)
def make_partial(vm: VM, function: Object, *args: Object, **kwargs: Object) -> Object:
    return partial_new(vm, vm.const(functools.partial), function, *args, **kwargs)


def is_cacheable(vm: VM, result: Object) -> bool:
    """Whether a result computed anew is as good as the one in the cache: a constant, a tensor, a tuple of such, or an object from outside."""
    if isinstance(result, TupleObject):
        return all(is_cacheable(vm, vm.observe(item)) for item in result.items(vm))
    return result.is_constant() or result.source is not None or issubclass(result.cls, torch.Tensor)


CachedFunction: type = type(functools.lru_cache(abstract.iterate))


class CachedFunctionObject(Object):
    """A function under lru_cache. It is inlined rather than looked up: what it would return for the same arguments is what the trace
    computes, and its cache, which only saves time, is left alone. Where the cache does more than save time (the function has side
    effects, or returns a new object whose changes later calls would see), tracing stops.
    """

    __slots__ = ()

    def wrapped(self, vm: VM) -> Object:
        """The function behind the cache; as immutable as the wrapper, which is known by identity."""
        return vm.pin(self.value.__wrapped__)

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object]) -> Object:
        before = len(vm.effects)
        result = vm.observe(abstract.call(vm, self.wrapped(vm), args, kwargs))
        if len(vm.effects) != before or not is_cacheable(vm, result):
            vm.unsupported(breaks.UnsupportedCall(f"{self.value.__wrapped__.__qualname__}, whose cached result is more than a constant or tensor"))
        return result

    def descriptor_get(self, vm: VM, obj: Object | None, cls: type) -> Object:
        return self if obj is None else MethodObject(self, obj)

    def call_as_method(self, vm: VM, receiver: Object, args: list[Object], kwargs: dict[str, Object] | None = None) -> Object:
        return self.call(vm, [receiver, *args], kwargs or {})

    def getattr(self, vm: VM, name: str) -> Object:
        if name == "__wrapped__":
            return self.wrapped(vm)
        return super().getattr(vm, name)

    def instance_dict(self, vm: VM) -> DictObject | None:
        if self.attrs is None and self.source is not None:
            self.attrs = vm.instance_dict_of(self)
        return self.attrs

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.value)


@wraps(CachedFunction, by_identity=True)
def wrap_cached(vm: VM, value: Any, source: Source | None) -> CachedFunctionObject:
    """A function under lru_cache, from outside."""
    return CachedFunctionObject(CachedFunction, source, value)
