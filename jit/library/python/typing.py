"""typing and generic classes: aliases are constants, and making one is computed while tracing."""

from __future__ import annotations

import _typing
import builtins
import collections
import collections.abc
import types
import typing

from framejit.objects.core.object import VM, Object, fold
from framejit.objects.core.registry import models, pure, wraps
from framejit.objects.types.typeobject import AliasObject

for _module in (builtins, collections, types):
    for _cls in vars(_module).values():
        if isinstance(_cls, type) and type(vars(_cls).get("__class_getitem__")) is types.ClassMethodDescriptorType:
            pure(vars(_cls)["__class_getitem__"])


wraps(typing._SpecialForm, typing._BaseGenericAlias, typing.TypeVar, by_identity=True)(AliasObject)  # type: ignore[attr-defined]  # all are immutable


@models(
    typing._SpecialForm.__getitem__,
    typing._GenericAlias.__getitem__,  # type: ignore[attr-defined]
    typing._SpecialGenericAlias.__getitem__,  # type: ignore[attr-defined]
)
def subscript(vm: VM, form: Object, parameters: Object) -> Object:
    real, given = vm.observe(form).constant(vm), vm.observe(parameters).as_real(vm)
    return fold(vm, lambda: real[given])


@models(_typing._idfunc)
def call_new_type(vm: VM, value: Object, /) -> Object:
    """A call of what `typing.NewType` makes."""
    return value


@models(type(collections.abc.Callable[[], None]).__new__)
def make_callable_alias(vm: VM, cls: Object, origin: Object, args: Object) -> Object:
    """`collections.abc.Callable[[int], str]`."""
    alias, real, given = vm.observe(cls).constant(vm), vm.observe(origin).constant(vm), vm.observe(args).as_real(vm)
    return fold(vm, lambda: alias(real, given))
