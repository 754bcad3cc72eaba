"""functools: partial objects, and the C functions among its tools."""

from __future__ import annotations

import functools
import warnings
import weakref
from abc import ABCMeta, get_cache_token
from collections.abc import Iterator, Sequence
from types import MethodType
from typing import Any

from framejit import breaks
from framejit.guards.source import MISSING, CAttr, Path, SlotMember, Source
from framejit.objects.core import abstract, operators
from framejit.objects.core.calls import keyword_items
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.object import VM, Codegen, Object, is_c_member
from framejit.objects.core.registry import app, models, rules_of_code, wraps
from framejit.objects.types.cellobject import CellObject
from framejit.objects.types.constobject import NONE
from framejit.objects.types.dictobject import dict_of, has_attrs
from framejit.objects.types.funcobject import FunctionObject, MethodObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.objects.types.userobject import UserObject
from framejit.plain import functools as plain

app(functools.reduce)(plain.reduce)
app(functools.cmp_to_key)(plain.cmp_to_key)
app(functools.cached_property.__get__)(plain.cached_property_get)
find_implementation: Any = vars(functools)["_find_impl"]
DISPATCH: Any = functools.singledispatch(len).dispatch  # type: ignore[arg-type]
CACHE = weakref.WeakKeyDictionary
"""The class of the cache of a function of functools.singledispatch, unless the program has replaced it."""


@rules_of_code(DISPATCH.__code__)
def dispatch(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """The `dispatch` of a function of functools.singledispatch. What its cache holds follows from what is registered, and isn't asked."""
    if kwargs or len(args) != 1 or not isinstance(function, FunctionObject) or not issubclass(vm.observe(args[0]).cls, type):
        return None
    registry, cache = variable_of(vm, function, "registry"), variable_of(vm, function, "dispatch_cache")
    if registry is None or cache is None or vm.observe(cache).cls is not CACHE:
        return None
    cls = vm.observe(args[0]).constant(vm)
    if operators.contains(vm, registry, args[0]).constant(vm):
        return abstract.getitem(vm, registry, args[0])
    keys = {key: key for key in (vm.observe(each).constant(vm) for each in abstract.iterate(vm, registry))}
    if any(issubclass(type(key), ABCMeta) for key in keys):
        vm.guards.read(get_cache_token)
        return abstract.getitem(vm, registry, vm.const(best_of(vm, cls, keys)))
    return abstract.call(vm, vm.pin(find_implementation), [args[0], registry])


def variable_of(vm: VM, function: FunctionObject, name: str) -> Object | None:
    """The value of a free variable of a `dispatch`."""
    cell = function.cells(vm)[DISPATCH.__code__.co_freevars.index(name)]
    return cell.load(vm) if isinstance(cell, CellObject) else None


def best_of(vm: VM, cls: type, keys: dict[type, type]) -> type:
    """Of the classes that are registered, the one whose implementation is for a class. What abstract classes say of it holds until one registers another."""
    try:
        found: type = find_implementation(cls, keys)
    except RuntimeError:
        vm.unsupported(breaks.UnsupportedCall("a function of functools.singledispatch for a class for which it has two implementations"))
    return found


FIELDS: tuple[Any, ...] = (functools.partial.func, functools.partial.args, functools.partial.keywords)
"""The members of a partial."""


def path_to(cls: type, member: Any) -> tuple[type[Source], Any]:
    """The step from a partial to a member of it. A subclass may have another attribute of the member's name."""
    return (CAttr, member.__name__) if cls is functools.partial else (SlotMember, member)


class PartialObject(UserObject):
    """functools.partial: function, positional and keyword arguments."""

    __slots__ = ("function", "args", "keywords")

    def __init__(
        self, cls: type, function: Object, args: Object, keywords: Object, source: Source | None = None, value: Any = MISSING
    ) -> None:
        super().__init__(cls, source, value)
        self.function = function
        self.args = args
        self.keywords = keywords

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        if self.cls is not functools.partial:
            return super().call(vm, args, kwargs, delivery)
        return self.forward(vm, args, kwargs, delivery)

    def forward(self, vm: VM, args: Sequence[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        """Modules/_functoolsmodule.c: partial_call."""
        bound = vm.observe(self.args)
        assert isinstance(bound, TupleObject)
        named = {vm.observe(key).constant(vm): value for key, value in keyword_items(vm, self.keywords)}
        return abstract.call(vm, self.function, [*bound.items(vm), *args], named | kwargs, delivery)

    def get_slot(self, vm: VM, member: Any) -> Object:
        """The fields of a partial, or a slot of a subclass in Python."""
        if is_c_member(member):
            return {"func": self.function, "args": self.args, "keywords": self.keywords}[member.__name__]
        return super().get_slot(vm, member)

    def reconstruct(self, cg: Codegen) -> None:
        for part in (self.function, self.args, self.keywords):
            cg.load(part)
        cg.load_const(self.cls)
        cg.call_const(rebuilt_partial, 4)

    def needs_fill(self) -> bool:
        return has_attrs(self) or bool(self.stored)

    def held_values(self) -> Iterator[tuple[Path, Object]]:
        yield from (((path_to(self.cls, member),), part) for member, part in zip(FIELDS[1:], (self.args, self.keywords), strict=True))
        yield from super().held_values()

    def referents(self) -> list[Object]:
        return [self.function, self.args, self.keywords, *super().referents()]


def rebuilt_partial(function: Any, args: tuple[Any, ...], keywords: dict[str, Any], cls: type) -> Any:
    """Run by generated code."""
    return functools.partial.__new__(cls, function, *args, **keywords)


@wraps(functools.partial, shared=True)
def wrap_partial(vm: VM, value: Any, source: Source) -> PartialObject:
    """Wrap a partial object from outside: its parts are read when it is called."""
    parts = [vm.wrap(member.__get__(value), source.child(*path_to(type(value), member))) for member in FIELDS]
    return PartialObject(type(value), parts[0], parts[1], parts[2], source, value)


@models(functools.partial.__call__)
def call_partial(vm: VM, self: PartialObject, /, *args: Object, **kwargs: Object) -> Object:
    return self.forward(vm, args, kwargs)


@models(functools.partial.__new__)
def partial_new(vm: VM, cls: Object, function: Object, /, *args: Object, **kwargs: Object) -> Object:
    """Modules/_functoolsmodule.c: partial_new, which unpacks a partial of a partial."""
    function = vm.observe(function)
    bound, named = list(args), [(vm.const(name), value) for name, value in kwargs.items()]
    if isinstance(function, PartialObject) and is_unpacked(vm, function):
        inner = vm.observe(function.args)
        assert isinstance(inner, TupleObject)
        bound = [*inner.items(vm), *bound]
        named = [*keyword_items(vm, function.keywords), *named]
        function = vm.observe(function.function)
    elif vm.raw_type_lookup(function.cls, "__call__") is MISSING:
        vm.raise_(TypeError, "the first argument must be callable")
    return PartialObject(abstract.class_to_make(vm, cls), function, TupleObject(bound), dict_of(vm, named))


class CalledOtherwise(functools.partial[Any]):
    """A partial with a `__call__` of its own."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs)


UNPACKS_ALL = functools.partial(CalledOtherwise(max)).func is max
"""Python 3.13 and later: a partial of a partial takes its function and arguments even if that has a `__call__` of its own."""


def is_unpacked(vm: VM, function: PartialObject) -> bool:
    """Return whether a partial of this one takes its function and arguments: it is called by partial's own code, and has no attributes."""
    if not UNPACKS_ALL and vm.raw_type_lookup(function.cls, "__call__") is not functools.partial.__call__:
        return False
    namespace = function.instance_dict(vm)
    return namespace is None or not namespace.open(vm)


@models(functools.partial)
def make_partial(vm: VM, function: Object, /, *args: Object, **kwargs: Object) -> Object:
    return partial_new(vm, vm.const(functools.partial), function, *args, **kwargs)


@models(vars(functools.partial)["__reduce__"])
def partial_reduce(vm: VM, self: PartialObject) -> Object:
    """Modules/_functoolsmodule.c: partial_reduce, of a partial that the trace has made. Whether one from outside has a `__dict__` yet shows only here."""
    if self.source is not None:
        vm.unsupported(breaks.UnsupportedCall("a copy of a functools.partial from outside"))
    namespace = self.instance_dict(vm)
    attributes = NONE if namespace is None or not namespace.open(vm) else namespace
    return TupleObject([vm.const(self.cls), TupleObject([self.function]), TupleObject([self.function, self.args, self.keywords, attributes])])


@models(vars(functools.partial)["__setstate__"])
def partial_setstate(vm: VM, self: PartialObject, state: Object) -> Object:
    """Modules/_functoolsmodule.c: partial_setstate, of a partial that the trace has made, and of a state as `__reduce__` gives it."""
    state = vm.observe(state)
    parts = list(map(vm.observe, state.items(vm))) if isinstance(state, TupleObject) else []
    if self.source is not None or [part.cls for part in parts[1:]] != [tuple, dict, type(None)]:
        vm.unsupported(breaks.UnsupportedCall("functools.partial.__setstate__ of a partial from outside, or with another state than a copy has"))
    for name, part in zip(("function", "args", "keywords"), parts):
        vm.trail.set(self, name, part)
    return NONE


def binds() -> bool:
    """Return whether partial objects are descriptors that make bound methods: in 3.13 they only warn that they will."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return "__get__" in vars(functools.partial) and type(functools.partial(abs).__get__(0)) is MethodType  # type: ignore[attr-defined]


if binds():

    @models(vars(functools.partial)["__get__"])
    def bind_partial(vm: VM, self: Object, obj: Object, cls: Object | None = None) -> Object:
        """Modules/_functoolsmodule.c: partial_descr_get."""
        return self if vm.observe(obj).cls is type(None) else MethodObject(self, obj)
