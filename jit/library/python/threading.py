"""threading.local: an object whose `__dict__` is the current thread's (Modules/_threadmodule.c: local_getattro)."""

from __future__ import annotations

import _thread
from typing import Any

from framejit import breaks
from framejit.guards.source import CAttr, Source
from framejit.objects.core.object import VM, Namespace, Object, object_getattribute, object_setattr
from framejit.objects.core.registry import wraps
from framejit.program import classes

OWN_CODE = ("__init__", "__new__", "__getattribute__", "__getattr__", "__setattr__", "__delattr__", "__slots__")
"""Attributes of a subclass with which an instance's attributes aren't simply those of its class and of the thread."""


class ThreadLocalObject(Object):
    """A threading.local from outside. Guards and stores go to the `__dict__` of the calling thread."""

    __slots__ = ()

    def instance_dict(self, vm: VM) -> Namespace | None:
        if self.attrs is None:
            assert self.source is not None
            found = vm.observe(vm.wrap(self.value.__dict__, self.source.child(CAttr, "__dict__")))
            assert isinstance(found, Namespace)
            vm.trail.fill(self, "attrs", found)
        return self.attrs

    def getattr(self, vm: VM, name: str) -> Object:
        if name == "__dict__":
            found = self.instance_dict(vm)
            assert found is not None
            return found
        return object_getattribute(vm, self, name)

    def setattr(self, vm: VM, name: str, value: Object | None) -> None:
        object_setattr(vm, self, name, value)


@wraps(_thread._local, shared=True)
def wrap_thread_local(vm: VM, value: Any, source: Source) -> Object:
    """Wrap a threading.local. A subclass with an `__init__` calls that in each thread, at the first access."""
    if any(name in vars(cls) for cls in type(value).__mro__[: type(value).__mro__.index(_thread._local)] for name in OWN_CODE):
        vm.unsupported(breaks.UnsupportedValue(f"a {classes.qualname(type(value))}, whose attributes are found by C code"))
    return ThreadLocalObject(type(value), source, value)
