"""typing and generic classes: aliases are constants, and making one is computed while tracing."""

from __future__ import annotations

import _typing
import builtins
import collections
import collections.abc
import types
import typing
from typing import Any

from framejit import breaks
from framejit.guards.source import MISSING
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object, fold
from framejit.objects.core.registry import models, pure, wraps
from framejit.objects.types import typefields
from framejit.objects.types.typeobject import AliasObject
from framejit.program import classes

for _module in (builtins, collections, types):
    for _cls in vars(_module).values():
        if isinstance(_cls, type) and type(vars(_cls).get("__class_getitem__")) is types.ClassMethodDescriptorType:
            pure(vars(_cls)["__class_getitem__"])


wraps(typing._SpecialForm, typing.TypeVar, by_identity=True)(AliasObject)  # both are immutable


@wraps(typing._BaseGenericAlias, by_identity=True)  # type: ignore[attr-defined]
class TypingAlias(AliasObject):
    """An alias of typing, such as `List[int]`, `Annotated[int, 1]` or `Model[T]`. Attributes that it doesn't have are those of its class, which may change."""

    __slots__ = ()

    def getattr(self, vm: VM, name: str) -> Object:
        return super().getattr(vm, name) if self.has_own(name) else abstract.getattr_(vm, vm.pin(self.value.__origin__), name)

    def has_own(self, name: str) -> bool:
        """Return whether the alias itself answers, and not the class (_BaseGenericAlias.__getattr__)."""
        own = vars(self.value)
        if name in ("__name__", "__qualname__"):
            return bool(own.get("_name")) or type(self.value) is ANNOTATED
        is_dunder = name.startswith("__") and name.endswith("__")
        return is_dunder or name in own or "__origin__" not in own or classes.lookup(self.cls, name, MISSING) is not MISSING


ANNOTATED = type(typing.Annotated[int, 0])
SUBSCRIBED = getattr(typing, "_generic_class_getitem", None)
"""The function in Python that a Generic written in C calls."""
if SUBSCRIBED is not None:

    @models(vars(typing.Generic)["__class_getitem__"])
    def subscribed(vm: VM, cls: Object, *parameters: Object) -> Object:
        return abstract.call(vm, vm.pin(SUBSCRIBED), [cls, *parameters], {})


@models(
    typing._SpecialForm.__getitem__,
    typing._GenericAlias.__getitem__,  # type: ignore[attr-defined]
    typing._SpecialGenericAlias.__getitem__,  # type: ignore[attr-defined]
)
def subscript(vm: VM, form: Object, parameters: Object) -> Object:
    real, given = vm.observe(form).constant(vm), vm.observe(parameters).as_real(vm)
    return fold(vm, lambda: real[given])


@models(types.GenericAlias.__repr__, types.UnionType.__repr__)
def repr_of_alias(vm: VM, self: Object) -> Object:
    """`repr(dict[str, int])` or `repr(int | None)`, which has the names of its classes."""
    real = vm.observe(self).constant(vm)
    rest_on_names(vm, real)
    return fold(vm, repr, real)


def rest_on_names(vm: VM, part: Any) -> None:
    """Guard the names by which a class, or the classes of an alias, are shown. Breaks for what shows more than that."""
    if type(part) in ALIASES:
        for each in (getattr(part, "__origin__", None), *part.__args__):
            rest_on_names(vm, each)
    elif type(part) is type:
        typefields.name_of(vm, part, "__module__")
        typefields.name_of(vm, part, "__qualname__")
        for name in ("__origin__", "__args__"):
            vm.raw_type_lookup(part, name)  # a class that has both is shown by its own repr()
    elif part is not None and part is not ... and type(part) is not typing.TypeVar:
        vm.unsupported(breaks.UnsupportedCall("repr() of an alias that has other parts than classes and type variables"))


def equality(method: Any) -> None:
    """Register `==` or `!=` of aliases and unions (Objects/genericaliasobject.c: ga_richcompare), which compare what they consist of."""

    def model(vm: VM, self: Object, other: Object) -> Object:
        real, given = vm.observe(self).as_real(vm), vm.observe(other).as_real(vm)
        if not all(compares_without_code(vm, part) for part in (real, given) if isinstance(part, ALIASES)):
            vm.unsupported(breaks.UnsupportedCall("a comparison of aliases that have other parts than classes and type variables"))
        return fold(vm, method, real, given)

    models(method)(model)


def compares_without_code(vm: VM, part: Any) -> bool:
    """Return whether a part of an alias is a class or something else that is compared by identity, or consists of such parts."""
    if isinstance(part, ALIASES):
        return all(compares_without_code(vm, each) for each in (getattr(part, "__origin__", None), *part.__args__))
    if isinstance(part, type):
        vm.const(part).as_real(vm)  # breaks if its metaclass compares
        return True
    return part is None or part is ... or type(part) is typing.TypeVar


ALIASES = (types.GenericAlias, types.UnionType)
for _cls in ALIASES:
    equality(vars(_cls)["__eq__"])
    equality(vars(_cls)["__ne__"])


@models(_typing._idfunc)
def call_new_type(vm: VM, value: Object, /) -> Object:
    """A call of what `typing.NewType` makes."""
    return value


@models(type(collections.abc.Callable[[], None]).__new__)
def make_callable_alias(vm: VM, cls: Object, origin: Object, args: Object) -> Object:
    """`collections.abc.Callable[[int], str]`."""
    alias, real, given = (vm.observe(part).as_real(vm) for part in (cls, origin, args))
    return fold(vm, lambda: alias(real, given))
