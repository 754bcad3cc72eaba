"""Instances of classes that have no special treatment: an instance dict, slots, and what the class says."""

from __future__ import annotations

import contextlib
from types import FrameType, MemberDescriptorType
from typing import Any

from framejit import breaks
from framejit._runtime import made_by_object_new
from framejit.guards.kinds import IsMissing
from framejit.guards.source import MISSING, SlotMember, Source
from framejit.objects.core import abstract, wording
from framejit.objects.core import object as generic
from framejit.objects.core.object import VM, Codegen, Object, Raise, fold, is_c_member, member_source, settle
from framejit.objects.core.registry import models, wraps
from framejit.objects.types.instancedict import fill_instance_dict
from framejit.program import classes


@wraps(object, shared=True)
class UserObject(Object):
    """An instance. `slots` holds the members read or stored so far (None: known to be unset)."""

    __slots__ = ("slots", "stored")
    has_dict = True
    is_filled = True

    def __init__(self, cls: type, source: Source | None = None, value: Any = MISSING) -> None:
        super().__init__(cls, source, value)
        self.slots: dict[MemberDescriptorType, Object | None] = {}
        self.stored: dict[MemberDescriptorType, None] = {}

    def share_dict(self, vm: VM, namespace: Object) -> bool:
        """An instance that the trace has made accepts a plain dict."""
        if self.source is not None or namespace.cls is not dict:
            return False
        vm.trail.set(self, "attrs", namespace)
        return True

    def get_slot(self, vm: VM, member: MemberDescriptorType) -> Object:
        if member not in self.slots:
            self.slots[member] = self._read_slot(vm, member)
            vm.trail.learned(self, self.slots.pop, member)
        found = self.slots[member]
        if found is None:
            name = abstract.full_type_name(vm, self) if wording.HAS_FULL_NAMES else self.type_name
            vm.raise_(AttributeError, f"'{name}' object has no attribute '{member.__name__}'")
        return found

    def _read_slot(self, vm: VM, member: MemberDescriptorType) -> Object | None:
        if self.source is None:
            return None
        source = member_source(vm, self, self.source, member)
        try:
            # Observed at once: if the value were never read, nothing else would guard that the slot is set.
            return vm.observe(vm.wrap(member.__get__(self.value), source))
        except AttributeError:
            vm.guard(IsMissing, source)
            return None

    def set_slot(self, vm: VM, member: MemberDescriptorType, value: Object | None) -> None:
        if is_c_member(member):
            vm.unsupported(breaks.UnsupportedOperation(f"storing to the C member {classes.name(self.cls)}.{member.__name__}"))
        if value is None:
            try:
                self.get_slot(vm, member)
            except Raise:
                vm.raise_(AttributeError, member.__name__)
        vm.trail.changed(self, self._restore, dict(self.slots), dict(self.stored))
        self.slots[member] = value
        self.stored[member] = None
        if self.source is not None:
            vm.effects.mutated(self)

    def _restore(self, slots: dict[MemberDescriptorType, Object | None], stored: dict[MemberDescriptorType, None]) -> None:
        self.slots.clear()  # the dicts stay, since records of what the trace has learned before have them
        self.slots.update(slots)
        self.stored.clear()
        self.stored.update(stored)

    def replaced(self) -> list[tuple[Source, Object]]:
        source = self.source
        if source is None:
            return []
        return [(source.child(SlotMember, member), settle(value)) for member in self.stored if (value := self.slots[member]) is not None]

    def reconstruct(self, cg: Codegen) -> None:
        made = classes.STAND_INS.get(id(self.cls))
        cg.load_const(self.cls)
        cg.call_const(object.__new__ if made is None or "__abstractmethods__" not in made.changes else new_of_any_class, 1)

    def fill(self, cg: Codegen) -> None:
        fill_instance_dict(cg, self, self.attrs)
        self.replay(cg)

    def replay(self, cg: Codegen) -> None:
        for member in self.stored:
            value = self.slots[member]
            cg.load_const(member)
            cg.load(self)
            if value is None:
                cg.call_const(delete_member, 2)
            else:
                cg.load(value)
                cg.call_const(store_member, 3)
            cg.pop_top()

    def referents(self) -> list[Object]:
        parts = [self.slots[member] for member in self.stored]
        if self.source is None:
            parts.append(self.attrs)
        return [part for part in parts if part is not None]


def new_of_any_class(cls: type) -> Any:
    """A new instance of a class that may be abstract at this moment, but isn't when the program makes the instance (runs in generated code)."""
    if not classes.flags(cls) & IS_ABSTRACT:
        return object.__new__(cls)
    methods = classes.class_dict(cls)["__abstractmethods__"]
    type.__setattr__(cls, "__abstractmethods__", frozenset())
    try:
        return object.__new__(cls)
    finally:
        type.__setattr__(cls, "__abstractmethods__", methods)


def store_member(member: MemberDescriptorType, owner: Any, value: Any) -> None:
    """Store to a slot, bypassing any `__setattr__` (runs in generated code)."""
    member.__set__(owner, value)


def delete_member(member: MemberDescriptorType, owner: Any) -> None:
    """Unset a slot, bypassing any `__delattr__` (runs in generated code); one that the trace has set and unset again may never have been set."""
    with contextlib.suppress(AttributeError):
        member.__delete__(owner)


@wraps(FrameType)
def reject_indirect(vm: VM, value: Any, source: Source) -> Object:
    """Break for objects whose attributes belong to running code."""
    vm.unsupported(breaks.UnsupportedValue(f"a {classes.qualname(type(value))}, whose attributes are found by C code"))


IS_ABSTRACT = 1 << 20
"""Include/object.h: Py_TPFLAGS_IS_ABSTRACT."""


@models(object.__new__)
def object_new(vm: VM, cls: Object, /, *args: Object, **kwargs: Object) -> Object:
    """Objects/typeobject.c: object_new."""
    real = vm.observe(cls).constant(vm)
    if args or kwargs:
        maker = vm.raw_type_lookup(real, "__new__")
        if not made_by_object_new(real) or getattr(maker, "__func__", maker) is not object.__new__:
            vm.raise_(TypeError, "object.__new__() takes exactly one argument (the type to instantiate)")
        if vm.raw_type_lookup(real, "__init__") is object.__init__:
            vm.raise_(TypeError, f"{classes.name(real)}() takes no arguments")
    vm.raw_type_lookup(real, "__abstractmethods__")  # guarded: the flag is set with it
    if classes.flags(real) & IS_ABSTRACT:
        fold(vm, object.__new__, real)  # raises TypeError, which names the abstract methods
    abstract.check_finalizer(vm, real)
    return UserObject(real)


@models(object.__init__)
def object_init(vm: VM, self: Object, /, *args: Object, **kwargs: Object) -> Object:
    """Objects/typeobject.c: object_init."""
    own_init = vm.raw_type_lookup(self.cls, "__init__") is not object.__init__
    if (args or kwargs) and (own_init or vm.raw_type_lookup(self.cls, "__new__") is object.__new__):
        if not isinstance(self, UserObject):
            vm.unsupported(breaks.UnsupportedCall(f"object.__init__ of a {classes.qualname(self.cls)} with arguments"))
        whose = "object" if own_init else self.type_name
        vm.raise_(TypeError, f"{whose}.__init__() takes exactly one argument (the instance to initialize)")
    return vm.const(None)


@models(object.__dict__["__class__"])
def object_class(vm: VM, self: Object) -> Object:
    return vm.const(self.cls)


def attribute_name(vm: VM, name: Object) -> str:
    """The name of an attribute that is given as an object."""
    name = vm.observe(name)
    if not issubclass(name.cls, str):
        vm.raise_(TypeError, f"attribute name must be string, not '{name.type_name}'")
    return str(name.constant(vm))


def check_no_class(vm: VM, self: Object) -> None:
    """Objects/typeobject.c: hackcheck: object's slots don't apply to objects with stricter ones, nor does its look-up know class attributes."""
    if issubclass(self.cls, type):
        vm.unsupported(breaks.UnsupportedCall("an attribute method of object on a class"))


@models(object.__getattribute__)
def object_getattribute(vm: VM, self: Object, name: Object) -> Object:
    check_no_class(vm, self)
    return generic.object_getattribute(vm, self, attribute_name(vm, name))


@models(object.__setattr__)
def object_setattr(vm: VM, self: Object, name: Object, value: Object) -> Object:
    check_no_class(vm, self)
    generic.object_setattr(vm, self, attribute_name(vm, name), value)
    return vm.const(None)


@models(object.__delattr__)
def object_delattr(vm: VM, self: Object, name: Object) -> Object:
    check_no_class(vm, self)
    generic.object_setattr(vm, self, attribute_name(vm, name), None)
    return vm.const(None)
