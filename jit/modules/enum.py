"""enum: classes of constants, whose look-ups and iteration are computed while tracing."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from framejit.objects import abstract
from framejit.objects.iterobject import SequenceIterator, tuple_iterator
from framejit.objects.object import Object
from framejit.objects.registry import models
from framejit.objects.vm import VM

EnumType: Any = enum.EnumMeta


def folded(function: Callable[..., Any]) -> None:
    """A method of enum classes that may be called on constants."""

    def model(vm: VM, *args: Object, **kwargs: Object) -> Object:
        real = [vm.observe(arg).as_real(vm) for arg in args]
        return abstract.fold(vm, function, *real, **{name: vm.observe(arg).as_real(vm) for name, arg in kwargs.items()})

    models(function)(model)


for _name in ("__call__", "__getitem__", "__contains__", "__len__", "__bool__", "__repr__"):
    folded(getattr(EnumType, _name))
for _name in ("__hash__", "__repr__", "__str__", "__format__"):
    folded(getattr(enum.Enum, _name))
for _name in ("__or__", "__and__", "__xor__", "__invert__", "__contains__", "__bool__", "__len__"):
    folded(getattr(enum.Flag, _name))
for _name in ("__ror__", "__rand__", "__rxor__"):
    folded(getattr(enum.Flag, _name))


@models(EnumType.__iter__, enum.Flag.__iter__)
def members(vm: VM, owner: Object) -> Object:
    return SequenceIterator(vm.new_tuple([vm.const(member) for member in vm.observe(owner).constant(vm)]), tuple_iterator)


@models(EnumType.__reversed__)
def members_reversed(vm: VM, owner: Object) -> Object:
    return SequenceIterator(vm.new_tuple([vm.const(member) for member in reversed(vm.observe(owner).constant(vm))]), tuple_iterator)
