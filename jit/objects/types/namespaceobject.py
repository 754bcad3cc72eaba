"""types.SimpleNamespace (Objects/namespaceobject.c): an instance dict, filled by keyword."""

from __future__ import annotations

from types import MemberDescriptorType, SimpleNamespace

from framejit import breaks
from framejit.objects.core import abstract, text
from framejit.objects.core.object import VM, Codegen, Object, object_setattr
from framejit.objects.core.registry import models
from framejit.objects.types.dictobject import DictObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.objects.types.userobject import UserObject
from framejit.plain import namespaces as plain
from framejit.program import classes


class NamespaceObject(UserObject):
    """A namespace that the trace has made."""

    __slots__ = ()

    def get_slot(self, vm: VM, member: MemberDescriptorType) -> Object:
        """Its `__dict__` is a member."""
        namespace = self.instance_dict(vm)
        assert isinstance(namespace, Object) and member.__name__ == "__dict__"
        return namespace

    def reconstruct(self, cg: Codegen) -> None:
        cg.call_const(SimpleNamespace, 0)


@models(SimpleNamespace.__new__)
def namespace_new(vm: VM, cls: Object, /, *args: Object, **kwargs: Object) -> Object:
    """Objects/namespaceobject.c: namespace_new, which ignores its arguments."""
    real = vm.observe(cls).constant(vm)
    if real is not SimpleNamespace:
        vm.unsupported(breaks.UnsupportedCall(f"making an instance of {classes.name(real)}, a subclass of SimpleNamespace"))
    return NamespaceObject(SimpleNamespace)


@models(SimpleNamespace.__init__)
def namespace_init(vm: VM, self: Object, /, *args: Object, **kwargs: Object) -> Object:
    """Objects/namespaceobject.c: namespace_init."""
    if args:
        vm.unsupported(breaks.UnsupportedCall("SimpleNamespace() of what is given by position"))
    for name, value in kwargs.items():
        object_setattr(vm, self, name, value)
    return vm.const(None)


@models(SimpleNamespace.__eq__)
def namespace_eq(vm: VM, self: Object, other: Object) -> Object:
    """Two namespaces are compared by their attributes; those of subclasses, which may say otherwise what these are, natively."""
    given = vm.observe(other)
    if not classes.is_subtype(given.cls, SimpleNamespace):
        return vm.const(NotImplemented)
    if self.cls is not SimpleNamespace or given.cls is not SimpleNamespace:
        vm.unsupported(breaks.UnsupportedCall("a comparison of instances of a subclass of SimpleNamespace"))
    return vm.call_app(plain.equal_namespaces, [self, given])


@models(SimpleNamespace.__ne__)
def namespace_ne(vm: VM, self: Object, other: Object) -> Object:
    equal = vm.observe(namespace_eq(vm, self, other))
    return equal if equal.value is NotImplemented else vm.const(not equal.constant(vm))


@models(SimpleNamespace.__repr__)
def namespace_repr(vm: VM, self: Object) -> Object:
    """Objects/namespaceobject.c: namespace_repr."""
    own = vm.observe(abstract.getattr_(vm, self, "__dict__"))
    if self.cls is not SimpleNamespace or not isinstance(own, DictObject):
        vm.unsupported(breaks.UnsupportedCall("repr() of an instance of a subclass of SimpleNamespace"))

    def parts() -> list[str]:
        named = [(vm.observe(key), value) for key, value in own.items(vm)]
        return [f"{key.constant(vm)}={text.real_repr(vm, value)}" for key, value in named if issubclass(key.cls, str) and key.constant(vm)]

    return text.repr_of_items(vm, self, ("namespace(", ")"), parts)


@models(SimpleNamespace.__reduce__)
def namespace_reduce(vm: VM, self: Object) -> Object:
    """Objects/namespaceobject.c: namespace_reduce."""
    return TupleObject([vm.const(self.cls), vm.const(()), vm.observe(abstract.getattr_(vm, self, "__dict__"))])
