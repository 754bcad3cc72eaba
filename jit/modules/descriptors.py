"""The descriptor methods of functions, methods and properties, called by name; and the exception that is being handled."""

from __future__ import annotations

import sys
from types import (
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    WrapperDescriptorType,
)

from framejit.objects import abstract
from framejit.objects.constobject import NONE
from framejit.objects.object import Object
from framejit.objects.registry import models
from framejit.objects.vm import VM

GETTERS = (
    FunctionType, MethodType, MethodDescriptorType, WrapperDescriptorType, GetSetDescriptorType, MemberDescriptorType,
    property, classmethod, staticmethod,
)  # fmt: skip


@models(*[vars(cls)["__get__"] for cls in GETTERS if "__get__" in vars(cls)])
def descriptor_get(vm: VM, self: Object, obj: Object, cls: Object | None = None) -> Object:
    """wrap_descr_get."""
    obj = vm.observe(obj)
    missing = obj.cls is type(None)
    if missing and (cls is None or vm.observe(cls).cls is type(None)):
        vm.raise_(TypeError, "__get__(None, None) is invalid")
    owner = obj.cls if cls is None or vm.observe(cls).cls is type(None) else vm.observe(cls).constant(vm)
    return self.descriptor_get(vm, None if missing else obj, owner)


@models(property.__set__, MemberDescriptorType.__set__)
def descriptor_set(vm: VM, self: Object, obj: Object, value: Object) -> Object:
    self.descriptor_set(vm, vm.observe(obj), value)
    return NONE


@models(property.__delete__, MemberDescriptorType.__delete__)
def descriptor_delete(vm: VM, self: Object, obj: Object) -> Object:
    self.descriptor_set(vm, vm.observe(obj), None)
    return NONE


@models(sys.exception)
def exception(vm: VM) -> Object:
    return vm.handled_exception() or NONE


@models(sys.exc_info)
def exc_info(vm: VM) -> Object:
    handled = vm.handled_exception()
    if handled is None:
        return vm.new_tuple([NONE, NONE, NONE])
    return vm.new_tuple([vm.const(handled.cls), handled, abstract.getattr_(vm, handled, "__traceback__")])
