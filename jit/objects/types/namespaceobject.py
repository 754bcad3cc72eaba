"""types.SimpleNamespace (Objects/namespaceobject.c): an instance dict, filled by keyword."""

from __future__ import annotations

from types import MemberDescriptorType, SimpleNamespace

from framejit import breaks
from framejit.objects.core.object import VM, Codegen, Object, object_setattr
from framejit.objects.core.registry import models
from framejit.objects.types.userobject import UserObject
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
