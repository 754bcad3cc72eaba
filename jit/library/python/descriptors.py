"""The descriptor methods of functions, methods and properties, called by name; and the exception that is being handled."""

from __future__ import annotations

import sys
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    WrapperDescriptorType,
)

from framejit import breaks
from framejit.guards.source import MISSING
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models
from framejit.objects.types.builtinobject import BuiltinObject, DescriptorObject
from framejit.objects.types.constobject import NONE
from framejit.objects.types.funcobject import MethodObject
from framejit.objects.types.tupleobject import TupleObject

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
    if not missing and isinstance(self, BuiltinObject) and self.is_data_descriptor(vm):
        self.check_owner(vm, obj)
    owner = obj.cls if cls is None or vm.observe(cls).cls is type(None) else vm.observe(cls).constant(vm)
    get = self.native_get if isinstance(self, DescriptorObject) else self.descriptor_get
    return get(vm, None if missing else obj, owner)


@models(*[cls.__repr__ for cls in (MethodDescriptorType, WrapperDescriptorType, GetSetDescriptorType, MemberDescriptorType, BuiltinFunctionType)])
def descriptor_repr(vm: VM, self: Object) -> Object:
    """The text of a C function or descriptor, which is known by identity."""
    return vm.const(repr(vm.observe(self).constant(vm)))


@models(property.__set__, MemberDescriptorType.__set__)
def descriptor_set(vm: VM, self: Object, obj: Object, value: Object | None) -> Object:
    store = self.native_set if isinstance(self, DescriptorObject) else self.descriptor_set
    store(vm, vm.observe(obj), value)
    return NONE


@models(property.__delete__, MemberDescriptorType.__delete__)
def descriptor_delete(vm: VM, self: Object, obj: Object) -> Object:
    return descriptor_set(vm, self, obj, None)


@models(*[vars(cls)["__isabstractmethod__"] for cls in (property, classmethod, staticmethod)])
def is_abstract(vm: VM, self: DescriptorObject) -> Object:
    """Objects/object.c: _PyObject_IsAbstract of each of the functions."""
    for part in self.parts.values():
        mark = None if part is None else abstract.lookup_attr(vm, vm.observe(part), "__isabstractmethod__")
        if mark is not None and abstract.truth(vm, mark):
            return vm.const(True)
    return vm.const(False)


@models(MethodType.__new__)
def method_new(vm: VM, cls: Object, function: Object, receiver: Object) -> Object:
    """Objects/classobject.c: method_new_impl. Arguments that it rejects are rejected natively."""
    function, receiver = vm.observe(function), vm.observe(receiver)
    if vm.observe(cls).constant(vm) is not MethodType or receiver.cls is type(None) or vm.raw_type_lookup(function.cls, "__call__") is MISSING:
        vm.unsupported(breaks.UnsupportedCall("types.MethodType of these arguments"))
    return MethodObject(function, receiver)


@models(sys.exception)
def exception(vm: VM) -> Object:
    return vm.handled_exception() or NONE


@models(sys.exc_info)
def exc_info(vm: VM) -> Object:
    handled = vm.handled_exception()
    if handled is None:
        return TupleObject([NONE, NONE, NONE])
    return TupleObject([vm.const(handled.cls), handled, abstract.getattr_(vm, handled, "__traceback__")])
