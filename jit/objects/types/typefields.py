"""Fields of classes that C code of `type` computes (Objects/typeobject.c: type_getsets, type_members): some are fixed, the others are guarded.

They are not attributes in the class's namespace, so the guards on look-ups along the MRO don't cover them.
"""

from __future__ import annotations

import sys
from types import FunctionType, MappingProxyType
from typing import Any, NoReturn

from framejit import breaks
from framejit.guards.kinds import IsMissing, IsPresent, TypeIs
from framejit.guards.source import CAttr, OwnAttr, Pinned
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models
from framejit.objects.types.classattributes import ClassAttributes
from framejit.objects.types.classchanges import ClassChanges, dict_of_class
from framejit.objects.types.listobject import ListObject
from framejit.program import classes

FIXED = frozenset({"__basicsize__", "__itemsize__", "__dictoffset__", "__weakrefoffset__", "__text_signature__"})
"""Attributes of a class that never change."""
ASSIGNABLE = frozenset({"__name__", "__qualname__", "__module__", "__mro__", "__bases__", "__base__"})
"""Attributes of a class that a program can assign to, and those that follow from them. Guards read them in each call."""
OWN = frozenset({"__annotations__", "__abstractmethods__", "__type_params__"})
"""Attributes of a class that are stored in its own namespace under the same name."""


def is_field(vm: VM, obj: Object, name: str) -> bool:
    """Return whether reading this attribute of a class is reading a field: its metaclass has type's own descriptor of the name."""
    return name in type.__dict__ and hasattr(type(type.__dict__[name]), "__set__") and vm.raw_type_lookup(obj.cls, name) is type.__dict__[name]


def own_attribute(vm: VM, cls: type, name: str) -> Object | None:
    """The class's own attribute, not an inherited one; its presence or absence is guarded."""
    vm.raw_type_lookup(cls, name)  # breaks if the trace has set it
    found, is_there = vm.type_lookup(cls, name), name in classes.class_dict(cls)
    if classes.can_change(cls) and id(cls) not in classes.STAND_INS:
        vm.guard(IsPresent if is_there else IsMissing, vm.root_source.child(Pinned, cls).child(OwnAttr, name))
    return found if is_there else None


def read(vm: VM, obj: Object, name: str) -> Object:
    """A field of the class that `obj` stands for. Raises the program's AttributeError if the class doesn't have it."""
    real = obj.value
    made = classes.STAND_INS.get(id(real))
    if made is not None:
        return made.field(vm, name)  # type: ignore[no-any-return]
    descriptor = type.__dict__[name]
    if name in FIXED or (not classes.can_change(real) and name not in ("__dict__", "__flags__")):
        try:
            return vm.from_real(descriptor.__get__(real))
        except AttributeError as error:
            vm.raise_(AttributeError, *error.args)
    if name == "__doc__":  # Objects/typeobject.c: type_get_doc
        found = own_attribute(vm, real, name)
        return vm.const(None) if found is None else vm.observe(found).descriptor_get(vm, None, real)
    if name in OWN:
        found = own_attribute(vm, real, name)
        if found is not None:
            return vm.observe(found)
        if name == "__abstractmethods__":
            vm.raise_(AttributeError, name)
        break_graph(vm, obj, name)
    changes = [effect for effect in vm.effects.all() if isinstance(effect, ClassChanges) and effect.value is real] if name == "__dict__" else []
    if name == "__dict__" and not changes and (not classes.can_change(real) or is_kept_by_a_module(vm, real)):
        return vm.const(MappingProxyType(dict_of_class(real)))
    if name == "__dict__" and not changes and vm.raw_type_lookup(obj.cls, "__getattribute__") is type.__getattribute__:
        return ClassAttributes(obj, own_attribute)
    if name not in ASSIGNABLE or vm.raw_type_lookup(obj.cls, "__getattribute__") is not type.__getattribute__:
        break_graph(vm, obj, name)
    pinned = vm.root_source.child(Pinned, real)
    vm.guard(TypeIs, pinned, obj.cls)
    return vm.wrap(descriptor.__get__(real), pinned.child(CAttr, name))


def is_kept_by_a_module(vm: VM, cls: type) -> bool:
    """Return whether a class is found under its name in its module, or in that of the function that runs: so it needn't die with the entries whose guards
    hold its namespace."""
    module, frame = sys.modules.get(str(classes.module(cls))), vm.frame
    first, *rest = classes.qualname(cls).split(".")
    for namespace in ({} if module is None else vars(module), {} if frame is None else frame.globals.value):
        found = namespace.get(first) if type(namespace) is dict else None
        for part in rest:
            found = classes.class_dict(found).get(part) if isinstance(found, type) else None
        if found is cls:
            return classes.has_names_only(cls)
    return False


def break_graph(vm: VM, obj: Object, name: str) -> NoReturn:
    vm.unsupported(breaks.UnsupportedValue(f"{name} of class {classes.qualname(obj.value)}"))


def name_of(vm: VM, cls: type, field: str = "__name__") -> str:
    """The name of a class as C code writes it in messages; guarded."""
    obj = vm.const(cls)
    if not is_field(vm, obj, field):
        break_graph(vm, obj, field)
    return str(vm.observe(read(vm, obj, field)).constant(vm))


LIBRARIES = sys.stdlib_module_names | {"torch", "numpy", "optree", "typing_extensions"}
LOOKED_AT = ("__getattribute__", "__getattr__", "__hash__", "__eq__", "__ne__", "__or__", "__ror__", "__bool__", "__len__", "__repr__", "__str__")
"""Special methods that C code calls on a class that it is given."""


def is_of_program(found: Any) -> bool:
    """Return whether the attribute under a method's name is Python code that is neither CPython's nor that of a library which framejit knows."""
    function = getattr(found, "__func__", found) if isinstance(found, (classmethod, staticmethod)) else found
    return isinstance(function, FunctionType) and function.__globals__.get("__name__", "").partition(".")[0] not in LIBRARIES


def answers_for_itself(vm: VM, cls: type) -> bool:
    """Return whether C code that is given this class may run the program's code, because its metaclass defines attribute access, hashes or comparisons."""
    return type(cls) is not type and any(is_of_program(vm.raw_type_lookup(type(cls), name)) for name in LOOKED_AT)


@models(type.__repr__)
def type_repr(vm: VM, self: Object) -> Object:
    """Objects/typeobject.c: type_repr."""
    self = vm.observe(self)
    name_of(vm, self.constant(vm), "__module__")  # type: ignore[arg-type]
    name_of(vm, self.constant(vm), "__qualname__")  # type: ignore[arg-type]
    return vm.const(type.__repr__(self.constant(vm)))


@models(type.mro)
def type_mro(vm: VM, self: Object) -> Object:
    """Objects/typeobject.c: type_mro_impl: the linearisation of the bases, which is the MRO unless the metaclass says otherwise."""
    self = vm.observe(self)
    if vm.raw_type_lookup(self.cls, "mro") is not type.__dict__["mro"]:
        break_graph(vm, self, "mro()")
    return ListObject(list(vm.observe(read(vm, self, "__mro__")).items(vm)))  # type: ignore[attr-defined]
