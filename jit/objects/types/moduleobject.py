"""Python modules (Objects/moduleobject.c): constants known by identity, whose globals are looked up and guarded by name."""

from __future__ import annotations

from types import ModuleType

from framejit import breaks
from framejit.guards.kinds import TypeIs
from framejit.guards.source import MISSING, Source
from framejit.objects.core import abstract, imports
from framejit.objects.core.object import VM, Codegen, IdentityConstant, Namespace, Object, find_attribute, is_own_slot, nothing_to_delete
from framejit.objects.core.registry import models, wraps
from framejit.objects.types.userobject import attribute_name

NAMESPACE = vars(ModuleType)["__dict__"]
INHERITED = frozenset(dir(ModuleType))
"""Attributes that modules have because of their type."""


class ModuleObject(IdentityConstant):
    """A module. `value` is the real one; its `__dict__` is the same DictObject that its functions have as globals."""

    __slots__ = ()
    is_true = True

    def instance_dict(self, vm: VM) -> Namespace:
        namespace = NAMESPACE.__get__(self.value)
        if namespace is None:
            vm.unsupported(breaks.UnsupportedValue("a module that was never initialised"))
        return vm.globals_of(namespace)

    def getattr(self, vm: VM, name: str) -> Object:
        """Objects/moduleobject.c: _Py_module_getattro."""
        if self.cls is not ModuleType:
            return self._getattr_of_subclass(vm, name)
        if name == "__dict__":
            return self.instance_dict(vm)
        imports.bring_attribute(self.value, name)
        found = self.instance_dict(vm).lookup(vm, name)
        if name == "__annotations__" and found is None:
            vm.unsupported(breaks.UnsupportedValue("the annotations of a module, which are made when they are asked for"))
        if name in INHERITED and name != "__annotations__":
            found = find_attribute(vm, self, name)
        found = imports.imported(vm, name, found)
        if found is not None:
            return found
        fallback = self.instance_dict(vm).lookup(vm, "__getattr__")
        if fallback is not None:
            return abstract.call(vm, fallback, [vm.const(name)])
        own_name = self.instance_dict(vm).lookup(vm, "__name__")
        if own_name is None or vm.observe(own_name).cls is not str:
            vm.raise_(AttributeError, f"module has no attribute '{name}'")
        vm.raise_(AttributeError, f"module '{vm.observe(own_name).constant(vm)}' has no attribute '{name}'")

    def _getattr_of_subclass(self, vm: VM, name: str) -> Object:
        """An attribute of an instance of a subclass (lazy loaders, torch.ops). If it is in the dict, it is guarded; otherwise the class determines it."""
        hooked = not is_own_slot(vm.raw_type_lookup(self.cls, "__getattribute__"), "__getattribute__")
        if hooked or vm.raw_type_lookup(self.cls, name) is not MISSING:
            return Object.getattr(self, vm, name)
        namespace, real = self.instance_dict(vm), MISSING
        if name not in self.value.__dict__ and name not in namespace.stores:
            real = getattr(self.value, name, MISSING)  # may put it into the dict, which isn't guarded for this name yet
        found = namespace.lookup(vm, name)
        if found is not None:
            return found
        return Object.getattr(self, vm, name) if real is MISSING else vm.pin(real)

    def setattr(self, vm: VM, name: str, value: Object | None) -> None:
        if self.cls is not ModuleType or name in INHERITED:
            Object.setattr(self, vm, name, value)
        elif value is not None:
            self.instance_dict(vm).store(vm, name, value)
        elif not self.instance_dict(vm).delete(vm, name):
            nothing_to_delete(vm, self, name)

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.value)


@wraps(ModuleType, by_identity=True)
def wrap_module(vm: VM, value: ModuleType, source: Source | None) -> Object:
    if source is not None:
        vm.guard(TypeIs, source, type(value))  # a module's class may be changed
    return ModuleObject(type(value), source, value)


@models(ModuleType.__getattribute__)
def module_getattribute(vm: VM, self: Object, name: Object) -> Object:
    """The attribute as `module.name` finds it. A subclass's `__getattr__`, which would be asked last, isn't called here."""
    if self.cls is not ModuleType:
        vm.unsupported(breaks.UnsupportedCall(f"ModuleType.__getattribute__ of a {self.type_name}"))
    return self.getattr(vm, attribute_name(vm, name))
