"""repr() of functions, methods, modules and mapping proxies, and object's own, with addresses from outside; and format() of subclasses of str and numbers."""

from __future__ import annotations

from importlib import _bootstrap
from types import FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

from framejit import breaks
from framejit.guards.source import MISSING
from framejit.library.python.identity import is_new_each_time
from framejit.objects.core import abstract, text
from framejit.objects.core.finalizers import guard_address
from framejit.objects.core.object import VM, IdentityConstant, Object, fold
from framejit.objects.core.registry import models
from framejit.objects.types import typefields
from framejit.objects.types.funcobject import FunctionObject, MethodObject
from framejit.objects.types.mappingproxy import MappingProxyObject
from framejit.objects.types.scalarsubclass import FORMAT, ScalarSubclassObject
from framejit.program import classes


def has_known_address(vm: VM, obj: Object, asked: str) -> bool:
    """Return whether the address of an object is that of its real one: of a constant, or of one from outside, whose identity is guarded."""
    if obj.value is MISSING or id(obj.value) in classes.STAND_INS or type(obj.value) is not obj.cls:
        return False
    if isinstance(obj, IdentityConstant) or (isinstance(obj, FunctionObject) and obj.source is None):
        vm.guards.rest_on_process("the address of an object")
        return True
    if obj.source is None or is_new_each_time(obj.source):
        return False
    guard_address(vm, obj, asked)
    return True


@models(object.__repr__)
def object_repr(vm: VM, self: Object) -> Object:
    """Objects/typeobject.c: object_repr."""
    if not has_known_address(vm, self, "repr()"):
        vm.unsupported(breaks.UnsupportedCall(f"the default repr() of a {classes.qualname(self.cls)}, which shows its address"))
    typefields.name_of(vm, self.cls, "__module__")
    typefields.name_of(vm, self.cls, "__qualname__")
    return vm.const(object.__repr__(self.value))


@models(FunctionType.__repr__)
def function_repr(vm: VM, self: FunctionObject) -> Object:
    """Objects/funcobject.c: func_repr."""
    if not has_known_address(vm, self, "repr()"):
        vm.unsupported(breaks.UnsupportedCall(f"repr() of {self.name_when_called}(), which the compiled code makes: it shows its address"))
    vm.observe(abstract.getattr_(vm, self, "__qualname__")).constant(vm)
    return fold(vm, FunctionType.__repr__, self.value)


@models(MethodType.__repr__)
def method_repr(vm: VM, self: MethodObject) -> Object:
    """Objects/classobject.c: method_repr."""
    name = abstract.lookup_attr(vm, self.function, "__qualname__") or abstract.lookup_attr(vm, self.function, "__name__")
    shown = vm.observe(name).constant(vm) if name is not None and vm.observe(name).cls is str else "?"
    return vm.const(f"<bound method {shown} of {text.real_repr(vm, self.receiver)}>")


@models(ModuleType.__repr__)
def module_repr(vm: VM, self: Object) -> Object:
    """Objects/moduleobject.c: module_repr, which calls a function in Python."""
    return abstract.call(vm, vm.pin(_bootstrap._module_repr), [self])  # type: ignore[attr-defined]


@models(MappingProxyType.__repr__)
def proxy_repr(vm: VM, self: MappingProxyObject) -> Object:
    """Objects/descrobject.c: mappingproxy_repr."""
    return vm.const(f"mappingproxy({text.real_repr(vm, self.contents(vm))})")


def of_numbers(method: Any) -> None:
    """Register `__repr__` of int or float, which json calls: as repr(), it may get a number that varies."""

    def model(vm: VM, self: Object) -> Object:
        number = vm.observe(self)
        return text.repr_(vm, number) if number.cls is method.__objclass__ else fold(vm, method, number.as_real(vm))

    models(method)(model)


for _cls in (int, float):
    of_numbers(_cls.__repr__)


def formats_subclasses(method: Any) -> None:
    """Register `__format__` of int, float or str. Without a format, an instance of a subclass is shown by its own `__str__` (Python/formatter_unicode.c)."""

    def model(vm: VM, self: Object, spec: Object, /) -> Object:
        self, given = vm.observe(self), vm.observe(spec)
        if not isinstance(self, ScalarSubclassObject) or given.cls is not str:
            return fold(vm, method, self.as_real(vm), given.as_real(vm))
        if not given.constant(vm):
            return text.str_(vm, self)
        try:
            return vm.const(method(self.plain_value(vm).constant(vm), given.constant(vm)))
        except (ValueError, OverflowError):  # the message has the name of the class
            vm.unsupported(breaks.UnsupportedCall(f"format() of a {self.type_name} with a format that is rejected"))

    models(method)(model)


for _method in FORMAT:
    formats_subclasses(_method)
