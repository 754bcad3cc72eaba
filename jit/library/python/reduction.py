"""The parts that copy and pickle take objects apart into (Objects/typeobject.c: object___reduce_ex___impl)."""

from __future__ import annotations

import copyreg
import struct
from collections import OrderedDict, defaultdict
from types import MemberDescriptorType
from typing import Any

from framejit import breaks
from framejit.guards.source import MISSING
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, NotConstant, Object, is_own_slot
from framejit.objects.core.registry import models
from framejit.objects.types.constobject import NONE, c_new
from framejit.objects.types.dictmethods import factory_of
from framejit.objects.types.dictobject import DictObject
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.setobject import SetObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.objects.types.userobject import UserObject
from framejit.program import classes

POINTER = struct.calcsize("P")
MANAGED_DICT = 1 << 4


def has_hidden_state(cls: type) -> bool:
    """Return whether instances have C fields (Objects/typeobject.c: object_getstate_default, which refuses to copy them)."""
    size = object.__basicsize__ + POINTER * (classes.weakrefoffset(cls) > 0)
    if classes.dictoffset(cls) and not classes.flags(cls) & MANAGED_DICT:
        size += POINTER
    return classes.itemsize(cls) > 0 or classes.basicsize(cls) > size


def overrides(vm: VM, cls: type, name: str) -> bool:
    """Return whether a class has a method of its own in the place of one of object's, or of none."""
    return vm.raw_type_lookup(cls, name) not in (MISSING, vars(object).get(name, MISSING))


@models(object.__reduce_ex__)
def reduce_ex(vm: VM, self: Object, protocol: Object) -> Object:
    """The class's own `__reduce__`, or the parts from which `__new__` and the state make the object again."""
    if vm.observe(protocol).cls is not int:
        vm.unsupported(breaks.UnsupportedCall("object.__reduce_ex__ with a protocol that is no int"))
    if isinstance(self, DictObject) and self.cls in (OrderedDict, defaultdict):
        return reduce_mapping(vm, self)
    if isinstance(self, SetObject) and self.cls in (set, frozenset):
        return TupleObject([vm.const(self.cls), TupleObject([ListObject(abstract.iterate(vm, self))]), NONE])
    if overrides(vm, self.cls, "__reduce__"):
        return abstract.call_method(vm, self, "__reduce__")
    if protocol.constant(vm) < 2:
        return reduce_by_base(vm, self)
    return reduce_newobj(vm, self)


def reduce_newobj(vm: VM, self: Object) -> Object:
    """Objects/typeobject.c: reduce_newobj."""
    if not isinstance(self, (UserObject, TupleObject, ListObject, DictObject)) or overrides(vm, self.cls, "__getnewargs_ex__"):
        raise NotConstant(self)
    arguments: list[Object] = []
    has_arguments = overrides(vm, self.cls, "__getnewargs__")
    if has_arguments:
        found = vm.observe(abstract.call_method(vm, self, "__getnewargs__"))
        if found.cls is not tuple:
            raise NotConstant(self)
        arguments = abstract.iterate(vm, found)
    needs_nothing_else = not has_arguments and not isinstance(self, (ListObject, DictObject))
    state = state_of(vm, self, needs_nothing_else)
    items = abstract.iter_(vm, self) if isinstance(self, ListObject) else NONE
    pairs = abstract.iter_(vm, abstract.call_method(vm, self, "items")) if isinstance(self, DictObject) else NONE
    return TupleObject([vm.const(copyreg.__newobj__), TupleObject([vm.const(self.cls), *arguments]), state, items, pairs])  # type: ignore[attr-defined]


def reduce_by_base(vm: VM, self: Object) -> Object:
    """copyreg._reduce_ex, of protocols before 2: the nearest base in C makes the object again, from a value of that base."""
    base = next(cls for cls in classes.mro(self.cls) if not classes.flags(cls) & classes.HEAP_TYPE)
    if base is self.cls or not isinstance(self, (UserObject, TupleObject, ListObject, DictObject)) or c_new(self.cls) is not base.__new__:
        raise NotConstant(self)
    value = NONE if base is object else abstract.call(vm, vm.const(base), [self], {})
    state = state_of(vm, self, is_whole=False)
    parts = [vm.const(copyreg._reconstructor), TupleObject([vm.const(self.cls), vm.const(base), value])]  # type: ignore[attr-defined]
    return TupleObject([*parts, state] if abstract.truth(vm, state) else parts)


def state_of(vm: VM, self: Object, is_whole: bool) -> Object:
    """The state that `__getstate__` gives, which an instance may have as an attribute of its own too (object_getstate). `is_whole`: see default_state."""
    namespace = self.instance_dict(vm)
    is_hooked = not is_own_slot(vm.raw_type_lookup(self.cls, "__getattribute__"), "__getattribute__")
    if is_hooked or overrides(vm, self.cls, "__getstate__") or (namespace is not None and "__getstate__" in namespace.open(vm)):
        if is_whole and has_hidden_state(self.cls):
            raise NotConstant(self)  # if this finds object's own __getstate__, that has to refuse the hidden state
        return abstract.call_method(vm, self, "__getstate__")
    return default_state(vm, self, is_whole)


@models(object.__getstate__)
def getstate(vm: VM, self: Object) -> Object:
    """Call object's own `__getstate__`, which the program calls itself, or which a `__getattribute__` of the program's finds."""
    if not isinstance(self, (UserObject, TupleObject, ListObject, DictObject)):
        raise NotConstant(self)
    return default_state(vm, self, is_whole=False)


def default_state(vm: VM, self: Object, is_whole: bool) -> Object:
    """The `__dict__` of an instance, or None (object_getstate_default). `is_whole`: the object is made of nothing else. Breaks if it has slots."""
    slots = any(isinstance(member, MemberDescriptorType) for cls in classes.mro(self.cls) for member in classes.class_dict(cls).values())
    record: Any = vm.raw_type_lookup(self.cls, "__slotnames__")  # copyreg's record of them
    named_slots = record not in (MISSING, []) or (record is not MISSING and id(self.cls) in classes.STAND_INS)
    if (is_whole and has_hidden_state(self.cls)) or slots or named_slots:
        raise NotConstant(self)
    namespace = self.instance_dict(vm)
    return NONE if namespace is None or not namespace.open(vm) else namespace


def reduce_mapping(vm: VM, mapping: DictObject) -> Object:
    """The parts that an OrderedDict or a defaultdict is copied from: its class, its factory, its attributes, and an iterator over its items."""
    factory = vm.observe(factory_of(vm, mapping)) if mapping.cls is defaultdict else NONE
    arguments = [] if factory.cls is type(None) else [factory]
    namespace = mapping.instance_dict(vm)
    state = NONE if namespace is None or not namespace.open(vm) else namespace
    items = abstract.iter_(vm, abstract.call_method(vm, mapping, "items"))
    return TupleObject([vm.const(mapping.cls), TupleObject(arguments), state, NONE, items])
