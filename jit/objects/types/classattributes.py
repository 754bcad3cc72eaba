"""The `__dict__` of a class from outside that isn't kept by its module: it is looked up by name only, since a guard on all of it would keep the class alive."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, NoReturn

from framejit import breaks
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.types.mappingproxy import MappingProxyObject
from framejit.program import classes


class ClassAttributes(MappingProxyObject):
    """A proxy for the class's namespace. `read`: reads an attribute that the class itself has, or None, and guards which it is."""

    __slots__ = ("owner", "read")

    def __init__(self, owner: Object, read: Callable[[VM, type, str], Object | None]) -> None:
        super().__init__(MappingProxyType, owner)
        self.owner = owner
        self.read = read

    def contents(self, vm: VM) -> NoReturn:
        vm.unsupported(breaks.UnsupportedValue(f"__dict__ of class {classes.qualname(self.owner.value)}"))

    def value_of(self, vm: VM, key: Object) -> Object | None:
        """The value of a key; None if the class has no such attribute."""
        name = vm.observe(key)
        if name.cls is not str:
            self.contents(vm)
        return self.read(vm, self.owner.value, name.constant(vm))

    def getitem(self, vm: VM, key: Object) -> Object:
        found = self.value_of(vm, key)
        if found is None:
            vm.raise_(KeyError, key)
        return found

    def get(self, vm: VM, key: Object, default: Object) -> Object:
        found = self.value_of(vm, key)
        return default if found is None else found

    def has(self, vm: VM, key: Object) -> Object:
        return vm.const(self.value_of(vm, key) is not None)

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.owner)
        cg.call_const(namespace_of_class, 1)

    def referents(self) -> list[Object]:
        return [self.owner]


def namespace_of_class(cls: type) -> Any:
    """The `__dict__` of a class (runs in generated code)."""
    return classes.class_dict(cls)
