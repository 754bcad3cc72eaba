"""C functions and descriptors (Objects/methodobject.c, descrobject.c): what they mean is looked up by the real object in the registry."""

from __future__ import annotations

from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any

import torch

from framejit import breaks
from framejit.guards.kinds import Equals, TypeIs
from framejit.guards.source import MISSING, CAttr, Source
from framejit.objects import abstract, operators
from framejit.objects.object import IdentityConstant, NotConstant, Object
from framejit.objects.registry import app_of, is_pure, model_of, models, setter_of, wraps
from framejit.objects.signatures import by_registry
from framejit.objects.vm import VM, Codegen


def call_builtin(vm: VM, function: Any, args: list[Object], kwargs: dict[str, Object]) -> Object:
    """Call a C function: by its model, by its stand-in in Python, as a node of the graph, or for real on constants."""
    found = by_registry(vm, function, args, kwargs)
    if found is not None:
        return found
    entered = vm.call_library(vm.const(function), args, kwargs)
    if entered is not None:
        return entered
    if is_pure(function):
        try:
            real_args = [vm.observe(arg).as_real(vm) for arg in args]
            real_kwargs = {name: vm.observe(arg).as_real(vm) for name, arg in kwargs.items()}
        except NotConstant:
            pass
        else:
            return abstract.fold(vm, function, *real_args, **real_kwargs)
    vm.unsupported(breaks.UnsupportedCall(text_of(function)))


def text_of(function: Any) -> str:
    """The dotted name of a C function, for messages."""
    owner = getattr(function, "__objclass__", None)
    if owner is None:
        receiver = getattr(function, "__self__", None)
        owner = receiver if isinstance(receiver, type) else None
    prefix = owner.__qualname__ if owner is not None else getattr(function, "__module__", None)
    name = getattr(function, "__qualname__" if owner is None else "__name__", repr(function))
    return f"{prefix}.{name}" if prefix else name


class BuiltinObject(IdentityConstant):
    """A C function, an unbound method descriptor, or a getset or member descriptor; a constant known by identity."""

    __slots__ = ()

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object]) -> Object:
        if args and isinstance(self.value, (MethodDescriptorType, WrapperDescriptorType)):
            args = [vm.observe(args[0]), *args[1:]]
        return call_builtin(vm, self.value, args, kwargs)

    def call_as_method(self, vm: VM, receiver: Object, args: list[Object], kwargs: dict[str, Object] | None = None) -> Object:
        if self.cls in (MethodDescriptorType, WrapperDescriptorType):
            return call_builtin(vm, self.value, [receiver, *args], kwargs or {})
        return super().call_as_method(vm, receiver, args, kwargs)

    def is_data_descriptor(self, vm: VM) -> bool:
        return self.cls in (GetSetDescriptorType, MemberDescriptorType)

    def descriptor_get(self, vm: VM, obj: Object | None, cls: type) -> Object:
        kind = self.cls
        if kind is ClassMethodDescriptorType:
            return BuiltinMethodObject(self.value, vm.const(cls))
        if obj is None or kind in (BuiltinFunctionType, MethodWrapperType):
            return self
        if kind in (MethodDescriptorType, WrapperDescriptorType):
            return BuiltinMethodObject(self.value, obj)
        model = model_of(self.value)
        if model is not None:
            return vm.call_model(model, self.value, [obj], {})
        if kind is MemberDescriptorType:
            return obj.get_slot(vm, self.value)
        if self.value.__name__ == "__dict__":
            namespace = obj.instance_dict(vm)
            if namespace is not None:
                return namespace
        if obj.is_constant():
            return abstract.fold(vm, self.value.__get__, obj.constant(vm))
        vm.unsupported(breaks.UnsupportedValue(f"the attribute {text_of(self.value)}, computed by C code"))

    def descriptor_set(self, vm: VM, obj: Object, value: Object | None) -> bool:
        if self.cls is MemberDescriptorType:
            obj.set_slot(vm, self.value, value)
            return True
        if self.cls is GetSetDescriptorType:
            setter = setter_of(self.value)
            if setter is not None:
                setter(vm, obj, value)
                return True
            vm.unsupported(breaks.UnsupportedOperation(f"storing to {text_of(self.value)}, which C code handles"))
        return False

    def getattr(self, vm: VM, name: str) -> Object:
        try:
            return vm.from_real(getattr(self.value, name))
        except AttributeError as error:
            vm.raise_(AttributeError, *error.args)


class BuiltinMethodObject(Object):
    """A method descriptor bound to an object that the trace knows: `xs.append`."""

    __slots__ = ("descriptor", "receiver")

    def __init__(self, descriptor: Any, receiver: Object, source: Source | None = None, value: Any = MISSING) -> None:
        kind = MethodWrapperType if isinstance(descriptor, WrapperDescriptorType) else BuiltinFunctionType
        super().__init__(kind, source, value)
        self.descriptor = descriptor
        self.receiver = receiver

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object]) -> Object:
        return call_builtin(vm, self.descriptor, [self.receiver, *args], kwargs)

    def getattr(self, vm: VM, name: str) -> Object:
        if name == "__self__":
            return self.receiver
        return vm.from_real(getattr(self.descriptor, name))

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        if symbol not in ("==", "!=") or not isinstance(other, BuiltinMethodObject):
            return None
        same = self.descriptor is other.descriptor and operators.is_(vm, self.receiver, other.receiver)
        return vm.const(same == (symbol == "=="))

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.descriptor)
        cg.load(self.receiver)
        cg.call_const(bound_for_real, 2)

    def referents(self) -> list[Object]:
        return [self.receiver]


def bound_for_real(descriptor: Any, receiver: Any) -> Any:
    """A bound method (runs in generated code). The receiver's class may have another one of the name, which `super` has passed over."""
    if isinstance(descriptor, ClassMethodDescriptorType):
        return descriptor.__get__(None, receiver)
    return descriptor.__get__(receiver, type(receiver))


def bound_method(vm: VM, value: Any, source: Source) -> Object | None:
    """A method of a C type bound to an object from outside: known by its name and the object, as it is a new one on each access.

    None where it means nothing by its descriptor, or where several classes of the object have the name, so that it doesn't say which.
    """
    receiver, name = value.__self__, value.__name__
    found = [vars(base)[name] for base in type(receiver).__mro__ if name in vars(base)]
    if len(found) != 1 or type(found[0]) is not MethodDescriptorType or found[0].__get__(receiver) != value:
        return None
    (descriptor,) = found
    if model_of(value) is not None or app_of(value) is not None:
        return None
    if model_of(descriptor) is None and app_of(descriptor) is None and not isinstance(receiver, torch.Tensor):
        return None
    vm.guard(TypeIs, source, BuiltinFunctionType)
    vm.guard(Equals, source.child(CAttr, "__name__"), name)
    return BuiltinMethodObject(descriptor, vm.observe(vm.wrap(receiver, source.child(CAttr, "__self__"))), source, value)


class DescriptorObject(Object):
    """A staticmethod, classmethod or property found on a class. `parts` are its functions, by the field's name."""

    __slots__ = ("parts",)
    delivers = True

    def __init__(self, cls: type, parts: dict[str, Object | None], source: Source | None = None, value: Any = MISSING) -> None:
        super().__init__(cls, source, value)
        self.parts = parts

    def is_data_descriptor(self, vm: VM) -> bool:
        return issubclass(self.cls, property)

    def descriptor_get(self, vm: VM, obj: Object | None, cls: type) -> Object:
        if issubclass(self.cls, staticmethod):
            return self._part(vm, "__func__")
        if issubclass(self.cls, classmethod):
            return vm.observe(self._part(vm, "__func__")).descriptor_get(vm, vm.const(cls), type(cls))
        if obj is None:
            return self
        getter = self.parts["fget"]
        if getter is None:
            vm.raise_(AttributeError, f"property of '{cls.__name__}' object has no getter")
        return abstract.call(vm, getter, [obj])

    def descriptor_set(self, vm: VM, obj: Object, value: Object | None) -> bool:
        if not issubclass(self.cls, property):
            return False
        function = self.parts["fdel" if value is None else "fset"]
        if function is None:
            vm.raise_(AttributeError, f"property of '{obj.cls.__name__}' object has no {'deleter' if value is None else 'setter'}")
        abstract.call(vm, function, [obj] if value is None else [obj, value])
        return True

    def _part(self, vm: VM, name: str) -> Object:
        found = self.parts[name]
        assert found is not None
        return found

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object]) -> Object:
        if issubclass(self.cls, staticmethod):
            return abstract.call(vm, self._part(vm, "__func__"), args, kwargs)
        return super().call(vm, args, kwargs)

    def getattr(self, vm: VM, name: str) -> Object:
        if name in self.parts:
            return self.parts[name] or vm.const(None)
        if name == "__wrapped__" and "__func__" in self.parts:
            return self._part(vm, "__func__")
        return super().getattr(vm, name)

    def reconstruct(self, cg: Codegen) -> None:
        for part in self.parts.values():
            if part is None:
                cg.load_const(None)
            else:
                cg.load(part)
        cg.call_const(self.cls, len(self.parts))

    def referents(self) -> list[Object]:
        return [part for part in self.parts.values() if part is not None]


FIELDS: dict[type, tuple[str, ...]] = {staticmethod: ("__func__",), classmethod: ("__func__",), property: ("fget", "fset", "fdel")}


@wraps(
    BuiltinFunctionType, ClassMethodDescriptorType, GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType,
    MethodWrapperType, WrapperDescriptorType, by_identity=True,
)  # fmt: skip
def wrap_builtin(vm: VM, value: Any, source: Source | None) -> Object:
    return BuiltinObject(type(value), source, value)


@wraps(staticmethod, classmethod, property, by_identity=True)
def wrap_descriptor(vm: VM, value: Any, source: Source | None) -> Object:
    """The functions inside are as immutable as the descriptor, which is known by identity."""
    fields = next(FIELDS[base] for base in type(value).__mro__ if base in FIELDS)
    parts: dict[str, Object | None] = {}
    for name in fields:
        part = getattr(value, name)
        parts[name] = None if part is None else vm.pin(part)
    return DescriptorObject(type(value), parts, source, value)


def build_descriptor(cls: type) -> Any:
    """The model of `staticmethod(f)`, `classmethod(f)`, `property(f, ...)` inside a trace."""

    def construct(vm: VM, *args: Object, **kwargs: Object) -> Object:
        fields = FIELDS[cls]
        given: dict[str, Object | None] = dict.fromkeys(fields)
        given.update(zip(fields, args, strict=False))
        given.update({name: value for name, value in kwargs.items() if name in fields})
        return DescriptorObject(cls, given)

    return construct


for _cls in FIELDS:
    models(_cls)(build_descriptor(_cls))
