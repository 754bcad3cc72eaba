"""Python modules (Objects/moduleobject.c): constants known by identity, whose globals are looked up and guarded by name."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from framejit import breaks
from framejit.guards.kinds import TypeIs
from framejit.guards.source import Source
from framejit.objects import abstract
from framejit.objects.object import IdentityConstant, Object
from framejit.objects.registry import wraps
from framejit.objects.vm import VM, Codegen

if TYPE_CHECKING:
    from framejit.objects.dictobject import DictObject


OF_THE_TYPE = frozenset(dir(ModuleType)) - {"__dict__", "__annotations__"}
"""What every module has by its type. `__annotations__` is made when it is asked for: C code does that."""


class ModuleObject(IdentityConstant):
    """A module. `value` is the real one; its `__dict__` is the same DictObject that its functions have as globals."""

    __slots__ = ()

    def truth(self, vm: VM) -> bool:
        return True

    def instance_dict(self, vm: VM) -> DictObject:
        return vm.globals_of(self.value.__dict__)

    def getattr(self, vm: VM, name: str) -> Object:
        """Objects/moduleobject.c: _Py_module_getattro."""
        if self.cls is not ModuleType:
            return self._getattr_of_subclass(vm, name)
        found = self.instance_dict(vm).lookup(vm, name)
        if found is not None:
            return found
        if name in OF_THE_TYPE:
            return vm.object_getattribute(self, name)
        fallback = self.instance_dict(vm).lookup(vm, "__getattr__")
        if fallback is not None:
            return abstract.call(vm, fallback, [vm.const(name)])
        if name == "__dict__":
            return self.instance_dict(vm)
        if name == "__annotations__":
            vm.unsupported(breaks.UnsupportedValue(f"the annotations of module {self.value.__name__}, which has none yet"))
        vm.raise_(AttributeError, f"module '{self.value.__name__}' has no attribute '{name}'")

    def _getattr_of_subclass(self, vm: VM, name: str) -> Object:
        """Modules of a class of their own (lazy loaders, torch.ops): what is in the dict is guarded; the rest is the class's business."""
        if vm.raw_type_lookup(self.cls, name) is not vm.missing:
            return vm.generic_getattr(self, name)
        namespace, real = self.instance_dict(vm), vm.missing
        if name not in self.value.__dict__ and name not in namespace.stores:
            real = vm.load_lazy_attribute(self.value, name)  # may put it into the dict, of which nothing of the name is guarded yet
        found = namespace.lookup(vm, name)
        if found is not None:
            return found
        return vm.generic_getattr(self, name) if real is vm.missing else vm.pin(real)

    def setattr(self, vm: VM, name: str, value: Object | None) -> None:
        if value is not None:
            self.instance_dict(vm).store(vm, name, value)
        elif not self.instance_dict(vm).delete(vm, name):
            vm.raise_(AttributeError, name)

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.value)


@wraps(ModuleType, by_identity=True)
def wrap_module(vm: VM, value: ModuleType, source: Source | None) -> Object:
    if source is not None:
        vm.guard(TypeIs, source, type(value))  # a module may be given another class
    return ModuleObject(type(value), source, value)
