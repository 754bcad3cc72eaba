"""Instance methods (Objects/classobject.c: PyInstanceMethod_Type), which pybind11 makes of the methods of its classes."""

from __future__ import annotations

import torch

from framejit.objects.core.delivery import Delivery
from framejit.objects.core.object import VM, IdentityConstant, Object
from framejit.objects.core.registry import wraps
from framejit.objects.types.funcobject import MethodObject

InstanceMethod: type = type(vars(torch._C.DispatchKeySet)["has"])


@wraps(InstanceMethod, by_identity=True)
class InstanceMethodObject(IdentityConstant):
    """The method of a class in C++: read through an instance it is a bound method, and through the class the C function itself."""

    __slots__ = ()

    def descriptor_get(self, vm: VM, obj: Object | None, cls: type, delivery: Delivery | None = None) -> Object:
        function = vm.const(self.value.__func__)
        return function if obj is None else MethodObject(function, obj)

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        return vm.const(self.value.__func__).call(vm, args, kwargs, delivery)
