"""C functions and descriptors (Objects/methodobject.c, descrobject.c). Their meaning is looked up in the registry, by the real object."""

from __future__ import annotations

from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any, NoReturn

import torch

from framejit import breaks
from framejit._runtime import type_name
from framejit.guards.kinds import Equals, TypeIs
from framejit.guards.source import MISSING, CAttr, InstanceDict, Pinned, Source
from framejit.objects.core import abstract, differences, operators
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.naming import dotted
from framejit.objects.core.object import (
    VM,
    Codegen,
    IdentityConstant,
    Namespace,
    NotConstant,
    Object,
    fold,
    member_source,
    no_attribute,
    settle,
)
from framejit.objects.core.registry import app_of, by_library, call_model, is_pure, model_of, setter_of, wraps
from framejit.objects.core.signatures import by_registry
from framejit.objects.tensors.torchcall import torch_call
from framejit.objects.tensors.torchfunctions import operation_of
from framejit.objects.types import typefields
from framejit.objects.types.funcobject import MethodObject
from framejit.objects.types.scalarsubclass import taken_for_plain
from framejit.program import classes

AutogradNode: type = torch._C._FunctionBase
"""The class in C under `torch.autograd.Function` whose instances are passed as `ctx`."""
TRACED_AS_A_WHOLE = (
    "Remove what splits the graph where the function is applied, or in its backward: another break says what that is. Without it, forward and backward are"
    " traced together, and `ctx` is no obstacle."
)


def call_builtin(vm: VM, function: Any, args: list[Object], kwargs: dict[str, Object]) -> Object:
    """Call a C function: as an operation on tensors, by its model, by its stand-in in Python, or for real with constants."""
    operation = operation_of(function)
    if operation is not None:
        found = torch_call(vm, operation, args, kwargs, vm.const(function))
    else:
        args = taken_for_plain(vm, function, args)
        found = by_registry(vm, function, args, kwargs) or by_library(vm, vm.const(function), args, kwargs)
    if found is not None:
        return found
    if is_pure(function):
        try:
            real_args = [vm.observe(arg).as_real(vm) for arg in args]
            real_kwargs = {name: vm.observe(arg).as_real(vm) for name, arg in kwargs.items()}
        except NotConstant:
            pass
        else:
            return fold(vm, function, *real_args, **real_kwargs)
    vm.unsupported(breaks.UnsupportedCall(text_of(function, *args[:1])))


def text_of(function: Any, receiver: Object | None = None) -> str:
    """The dotted name of a C function as the program calls it, for messages. `receiver`: the object that it may be a method of."""
    if receiver is not None and isinstance(function, (MethodDescriptorType, WrapperDescriptorType)):
        called = settle(receiver)
        if function.__name__ == "__call__" and isinstance(getattr(called.value, "__name__", None), str):
            return dotted(called.value)
        return f"{classes.qualname(called.cls)}.{function.__name__}"
    return dotted(function)


@wraps(
    BuiltinFunctionType, ClassMethodDescriptorType, GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType,
    MethodWrapperType, WrapperDescriptorType, by_identity=True,
)  # fmt: skip
class BuiltinObject(IdentityConstant):
    """A C function, an unbound method descriptor, or a getset or member descriptor; a constant known by identity."""

    __slots__ = ()

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        if args and isinstance(self.value, (MethodDescriptorType, WrapperDescriptorType)):
            args = [vm.observe(args[0]), *args[1:]]
        bound = type(self.value.__self__) if self.cls is MethodWrapperType else None
        if issubclass(self.cls, BuiltinFunctionType) and (descriptor := descriptor_of(self.value)) is not None:
            return call_builtin(vm, descriptor, [vm.pin(self.value.__self__), *args], kwargs)  # a known method of a known object: a default, a constant
        is_descriptor = bound is GetSetDescriptorType or bound is MemberDescriptorType  # a `==` could run the code of a metaclass
        if is_descriptor and operation_of(self.value) is None:
            return call_builtin(vm, vars(bound).get(self.value.__name__, self.value), [vm.const(self.value.__self__), *args], kwargs)
        return call_builtin(vm, self.value, args, kwargs)

    def call_as_method(
        self, vm: VM, receiver: Object, args: list[Object], kwargs: dict[str, Object] | None = None, delivery: Delivery | None = None
    ) -> Object:
        if self.cls in (MethodDescriptorType, WrapperDescriptorType):
            return call_builtin(vm, self.value, [receiver, *args], kwargs or {})
        return super().call_as_method(vm, receiver, args, kwargs, delivery)

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        if symbol not in ("==", "!=") or not (isinstance(other, BuiltinObject) or other.cls in (FunctionType, type)):
            return None
        return vm.const((isinstance(other, BuiltinObject) and self.value == other.value) == (symbol == "=="))

    def is_data_descriptor(self, vm: VM) -> bool:
        return self.cls in (GetSetDescriptorType, MemberDescriptorType)

    def descriptor_get(self, vm: VM, obj: Object | None, cls: type, delivery: Delivery | None = None) -> Object:
        kind = self.cls
        if kind is ClassMethodDescriptorType:
            return BuiltinMethodObject(self.value, vm.const(cls))
        if obj is None or kind in (BuiltinFunctionType, MethodWrapperType):
            return self
        if kind in (MethodDescriptorType, WrapperDescriptorType):
            return BuiltinMethodObject(self.value, obj)
        if self.value.__objclass__ is type and issubclass(obj.cls, type):
            name = self.value.__name__
            return typefields.read(vm, obj, name) if typefields.is_field(vm, obj, name) else typefields.break_graph(vm, obj, name)
        read = operation_of(self.value.__get__) if kind is GetSetDescriptorType else None
        if read is not None:
            found = torch_call(vm, read, [obj])
            if found is not None:
                return found
        model = model_of(self.value)
        if model is not None:
            return call_model(vm, model, self.value, [obj], {})
        if kind is MemberDescriptorType:
            self.check_owner(vm, obj)
            return obj.get_slot(vm, self.value)
        if self.value.__name__ == "__dict__":
            namespace = obj.instance_dict_as_value(vm)
            if namespace is not None:
                return namespace
        if obj.is_knowable():
            return fold(vm, self.value.__get__, obj.constant(vm))
        vm.unsupported(breaks.UnsupportedValue(f"the attribute {text_of(self.value)}, computed by C code"))

    def descriptor_set(self, vm: VM, obj: Object, value: Object | None, delivery: Delivery | None = None) -> bool:
        if self.cls is MemberDescriptorType:
            self.check_owner(vm, obj)
            setter = setter_of(self.value)
            if setter is None:
                obj.set_slot(vm, self.value, value)
            else:
                setter(vm, obj, value)
            return True
        if self.cls is GetSetDescriptorType:
            store = operation_of(self.value.__delete__ if value is None else self.value.__set__)
            if store is not None and torch_call(vm, store, [obj] if value is None else [obj, value]) is not None:
                return True
            setter = setter_of(self.value)
            if setter is not None:
                setter(vm, obj, value)
                return True
            if self.value.__name__ == "__dict__" and value is not None and obj.share_dict(vm, vm.observe(value)):
                return True
            if self.value.__objclass__ is AutogradNode:
                vm.unsupported(breaks.UnsupportedOperation("a change of the ctx of an autograd.Function that runs uncompiled", TRACED_AS_A_WHOLE))
            vm.unsupported(breaks.UnsupportedOperation(f"storing to {text_of(self.value)}, which C code handles"))
        return False

    def check_owner(self, vm: VM, obj: Object) -> None:
        """Objects/descrobject.c: descr_check: a class may hold a slot of an unrelated class under a name of its own."""
        owner = self.value.__objclass__
        if not classes.is_subtype(obj.cls, owner):
            vm.raise_(TypeError, f"descriptor '{self.value.__name__}' for '{type_name(owner)}' objects doesn't apply to a '{obj.type_name}' object")

    def getattr(self, vm: VM, name: str) -> Object:
        try:
            return vm.from_real(getattr(self.value, name))
        except AttributeError as error:
            vm.raise_(AttributeError, *error.args)


class BuiltinMethodObject(Object):
    """A method descriptor bound to an object that the trace knows: `xs.append`."""

    __slots__ = ("descriptor", "receiver")
    guarded_by_name = True

    def __init__(self, descriptor: Any, receiver: Object, source: Source | None = None, value: Any = MISSING) -> None:
        kind = MethodWrapperType if isinstance(descriptor, WrapperDescriptorType) else BuiltinFunctionType
        super().__init__(kind if value is MISSING else type(value), source, value)
        self.descriptor = descriptor
        self.receiver = receiver

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        return call_builtin(vm, self.descriptor, [self.receiver, *args], kwargs)

    def getattr(self, vm: VM, name: str) -> Object:
        if name == "__self__":
            return self.receiver
        if name in ("__name__", "__qualname__", "__doc__", "__text_signature__", "__objclass__") and hasattr(self.descriptor, name):
            return vm.from_real(getattr(self.descriptor, name))
        if name == "__class__":
            return vm.const(self.cls)
        if vm.raw_type_lookup(self.cls, name) is MISSING:
            no_attribute(vm, self, name)
        vm.unsupported(breaks.UnsupportedValue(f"the attribute {name} of the bound method {text_of(self.descriptor)}"))

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
    """A bound method (runs in generated code). The receiver's class may have another method of that name, which `super` has skipped."""
    if isinstance(descriptor, ClassMethodDescriptorType):
        return descriptor.__get__(None, receiver)
    return descriptor.__get__(receiver, type(receiver))


def descriptor_of(value: Any) -> Any:
    """The descriptor of a method of a C type that is bound to an object. None if it has no meaning, if the method itself has one, or if several classes of the
    object have the name, so that the name doesn't identify the method."""
    receiver, name = value.__self__, value.__name__
    found = [classes.class_dict(base)[name] for base in classes.mro(type(receiver)) if name in classes.class_dict(base)]
    if len(found) != 1 or type(found[0]) is not MethodDescriptorType or found[0].__get__(receiver, type(receiver)) != value:
        return None
    (descriptor,) = found
    if model_of(value) is not None or app_of(value) is not None:
        return None
    has_meaning = model_of(descriptor) is not None or app_of(descriptor) is not None or is_pure(descriptor)
    if not has_meaning and not isinstance(receiver, torch.Tensor):
        return None
    return descriptor


def bound_method(vm: VM, value: Any, source: Source) -> Object | None:
    """A method of a C type bound to an object from outside. Each access gives a new one, so it is guarded by its name and the object.

    None if `descriptor_of` finds no descriptor for it.
    """
    descriptor = descriptor_of(value)
    if descriptor is None:
        return None
    receiver, name = value.__self__, value.__name__
    vm.guard(TypeIs, source, type(value))
    vm.guard(Equals, source.child(CAttr, "__name__"), name)
    return BuiltinMethodObject(descriptor, vm.observe(vm.wrap(receiver, source.child(CAttr, "__self__"))), source, value)


class DescriptorObject(Object):
    """A staticmethod, classmethod or property from outside, known by identity. `parts`: its functions, by the field's name."""

    __slots__ = ("parts",)

    def __init__(self, cls: type, parts: dict[str, Object | None], source: Source | None, value: Any) -> None:
        super().__init__(cls, source, value)
        self.parts = parts

    def is_data_descriptor(self, vm: VM) -> bool:
        return issubclass(self.cls, property) or super().is_data_descriptor(vm)

    def overrides(self, vm: VM, name: str) -> bool:
        """Return whether the object's class, a subclass in Python, defines this special method itself."""
        return self.cls not in FIELDS and type(vm.raw_type_lookup(self.cls, name)) is not WrapperDescriptorType

    def descriptor_get(self, vm: VM, obj: Object | None, cls: type, delivery: Delivery | None = None) -> Object:
        return (super().descriptor_get if self.overrides(vm, "__get__") else self.native_get)(vm, obj, cls, delivery)

    def native_get(self, vm: VM, obj: Object | None, cls: type, delivery: Delivery | None = None) -> Object:
        """sm_descr_get, cm_descr_get, property_descr_get."""
        if issubclass(self.cls, staticmethod):
            return self._part(vm, "__func__")
        if issubclass(self.cls, classmethod):
            function = vm.observe(self._part(vm, "__func__"))
            receiver = vm.const(cls)
            if not differences.CLASSMETHODS_CHAIN or vm.raw_type_lookup(function.cls, "__get__") is MISSING:
                if vm.raw_type_lookup(function.cls, "__call__") is MISSING:
                    vm.unsupported(breaks.UnsupportedOperation("a method of what can't be called"))
                return MethodObject(function, receiver)
            return function.descriptor_get(vm, receiver, cls, delivery)
        if obj is None:
            return self
        getter = self.parts["fget"]
        if getter is None:
            self._break_graph(vm, obj, self.value.__get__)
        return abstract.call(vm, getter, [obj], None, delivery)

    def descriptor_set(self, vm: VM, obj: Object, value: Object | None, delivery: Delivery | None = None) -> bool:
        if not issubclass(self.cls, property) or self.overrides(vm, "__delete__" if value is None else "__set__"):
            return super().descriptor_set(vm, obj, value, delivery)
        self.native_set(vm, obj, value, delivery)
        return True

    def native_set(self, vm: VM, obj: Object, value: Object | None, delivery: Delivery | None = None) -> None:
        """property_descr_set."""
        function = self.parts["fdel" if value is None else "fset"]
        if function is None:
            self._break_graph(vm, obj, self.value.__delete__ if value is None else lambda like: self.value.__set__(like, None))
        abstract.call(vm, function, [obj] if value is None else [obj, value], None, delivery)

    def _break_graph(self, vm: VM, obj: Object, access: Callable[[Any], Any]) -> NoReturn:
        """Raise what the property raises for an access without the function: the message contains the property's name, which only C code can read."""
        like = type(classes.name(obj.cls), (), {"__qualname__": classes.qualname(obj.cls)})
        try:
            access(like())
        except AttributeError as error:
            vm.raise_(AttributeError, *error.args)
        raise AssertionError("a property without the function gave access")

    def _part(self, vm: VM, name: str) -> Object:
        found = self.parts[name]
        assert found is not None
        return found

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        if issubclass(self.cls, staticmethod) and not self.overrides(vm, "__call__"):
            return abstract.call(vm, self._part(vm, "__func__"), args, kwargs, delivery)
        return super().call(vm, args, kwargs, delivery)

    def instance_dict(self, vm: VM) -> Namespace | None:
        if self.attrs is None and classes.dictoffset(self.cls):
            vm.trail.fill(self, "attrs", vm.observe(vm.wrap(self.value.__dict__, self._origin(vm).child(InstanceDict))))
        return self.attrs

    def _origin(self, vm: VM) -> Source:
        return vm.root_source.child(Pinned, self.value) if self.source is None else self.source

    def get_slot(self, vm: VM, member: MemberDescriptorType) -> Object:
        found = self.parts.get(member.__name__, MISSING) if member.__objclass__ in FIELDS else MISSING
        if member.__name__ == "__wrapped__":
            found = self.parts["__func__"]
        if found is not MISSING:
            return vm.const(None) if found is None else found
        return vm.wrap(member.__get__(self.value), member_source(vm, self, self._origin(vm), member))

    def setattr(self, vm: VM, name: str, value: Object | None) -> None:
        if self.source is None:
            vm.unsupported(breaks.UnsupportedOperation(f"changing a {classes.qualname(self.cls)}"))
        super().setattr(vm, name, value)


FIELDS: dict[type, tuple[str, ...]] = {staticmethod: ("__func__",), classmethod: ("__func__",), property: ("fget", "fset", "fdel")}


@wraps(staticmethod, classmethod, property, by_identity=True)
def wrap_descriptor(vm: VM, value: Any, source: Source | None) -> Object:
    """Wrap a descriptor. The functions in it are as immutable as the descriptor, which is known by identity."""
    fields = next(FIELDS[base] for base in classes.mro(type(value)) if base in FIELDS)
    parts: dict[str, Object | None] = {}
    for name in fields:
        part = getattr(value, name)
        parts[name] = None if part is None else vm.pin(part)
    return DescriptorObject(type(value), parts, source, value)

