"""id(), and the methods that copy and pickle call on objects: identities that the trace can compare and look up, although it doesn't know addresses."""

from __future__ import annotations

import _thread
import copyreg
import struct
from collections import OrderedDict, defaultdict
from types import MemberDescriptorType

from framejit import breaks
from framejit.guards.source import MISSING, Source
from framejit.objects.core import abstract
from framejit.objects.core.finalizers import has_address
from framejit.objects.core.object import VM, NotConstant, Object, settle
from framejit.objects.core.registry import models, wrapper_for
from framejit.objects.types.constobject import NONE
from framejit.objects.types.dictmethods import factory_of
from framejit.objects.types.dictobject import DictObject
from framejit.objects.types.idobject import IdConstant, IdObject
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.setobject import SetObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.objects.types.userobject import UserObject
from framejit.program import classes


@models(id)
def id_(vm: VM, obj: Object) -> Object:
    """The address of an object. That of one from outside is a constant once its number is asked for, if its identity may be guarded."""
    obj = vm.observe(obj)
    if id(obj.value) in classes.STAND_INS:
        return IdObject(obj)
    if obj.cls in (type(None), bool) or (wrapper_for(obj.cls).by_identity and obj.is_knowable()):
        obj.constant(vm)
        return IdConstant(obj, is_of_constant=True)
    if obj.source is not None and obj.value is not MISSING and not is_new_each_time(obj.source):
        return IdConstant(settle(obj), is_of_constant=False) if has_address(obj) else IdObject(vm.tell_apart(obj))
    return IdObject(settle(obj))


def is_new_each_time(source: Source) -> bool:
    """Return whether a value from outside is a new object each time it is read: the size of a tensor, or something in such a value."""
    return source.is_new_each_time or (source.base is not None and is_new_each_time(source.base))


@models(_thread.get_ident)
def get_ident(vm: VM) -> Object:
    """The number of the running thread, which differs between calls: it can only be used for look-ups (reprlib's recursion check)."""
    return IdObject(vm.const(_thread))


POINTER = struct.calcsize("P")
MANAGED_DICT = 1 << 4
OVERRIDES = ("__reduce__", "__getstate__", "__getnewargs__", "__getnewargs_ex__")


def has_hidden_state(cls: type) -> bool:
    """Return whether instances have C fields (Objects/typeobject.c: object_getstate_default, which refuses to copy them)."""
    size = object.__basicsize__ + POINTER * (classes.weakrefoffset(cls) > 0)
    if classes.dictoffset(cls) and not classes.flags(cls) & MANAGED_DICT:
        size += POINTER
    return classes.itemsize(cls) > 0 or classes.basicsize(cls) > size


@models(object.__reduce_ex__)
def reduce_ex(vm: VM, self: Object, protocol: Object) -> Object:
    """Objects/typeobject.c: reduce_newobj, for instances whose whole state is their `__dict__`, and the `__reduce__` of sets and mappings."""
    if vm.observe(protocol).cls is not int:
        vm.unsupported(breaks.UnsupportedCall("object.__reduce_ex__ with a protocol that is no int"))
    if isinstance(self, DictObject) and self.cls in (OrderedDict, defaultdict) and protocol.constant(vm) >= 2:
        return reduce_mapping(vm, self)
    if isinstance(self, SetObject) and self.cls in (set, frozenset) and protocol.constant(vm) >= 2:
        return TupleObject([vm.const(self.cls), TupleObject([ListObject(abstract.iterate(vm, self))]), NONE])
    plain = isinstance(self, UserObject) and all(
        vm.raw_type_lookup(self.cls, name) in (MISSING, getattr(object, name, MISSING)) for name in OVERRIDES
    )
    slots = any(isinstance(member, MemberDescriptorType) for cls in classes.mro(self.cls) for member in classes.class_dict(cls).values())
    record = vm.raw_type_lookup(self.cls, "__slotnames__")  # copyreg's record of them
    named_slots = record not in (MISSING, []) or (record is not MISSING and id(self.cls) in classes.STAND_INS)
    if not plain or has_hidden_state(self.cls) or slots or named_slots or vm.observe(protocol).cls is not int or protocol.constant(vm) < 2:
        raise NotConstant(self)
    namespace = self.instance_dict(vm)
    state = NONE if namespace is None or not namespace.open(vm) else namespace
    return TupleObject([vm.const(copyreg.__newobj__), TupleObject([vm.const(self.cls)]), state, NONE, NONE])  # type: ignore[attr-defined]


def reduce_mapping(vm: VM, mapping: DictObject) -> Object:
    """The parts that an OrderedDict or a defaultdict is copied from: its class, its factory, its attributes, and an iterator over its items."""
    factory = vm.observe(factory_of(vm, mapping)) if mapping.cls is defaultdict else NONE
    arguments = [] if factory.cls is type(None) else [factory]
    namespace = mapping.instance_dict(vm)
    state = NONE if namespace is None or not namespace.open(vm) else namespace
    items = abstract.iter_(vm, abstract.call_method(vm, mapping, "items"))
    return TupleObject([vm.const(mapping.cls), TupleObject(arguments), state, NONE, items])
