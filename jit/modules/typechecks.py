"""isinstance and issubclass (Objects/abstract.c: object_isinstance, object_issubclass)."""

from __future__ import annotations

import abc
import enum
from types import UnionType
from typing import Any, Union, get_args, get_origin

from framejit.guards.source import MISSING
from framejit.objects import abstract
from framejit.objects.object import Object
from framejit.objects.registry import models, pure
from framejit.objects.tupleobject import HEAP_TYPE, TupleObject
from framejit.objects.vm import VM

pure(UnionType.__or__, type.__or__, type.__ror__, type.__repr__, type.__dict__["mro"])
OBJECT_CLASS = object.__dict__["__class__"]
NATIVE_CHECKS: frozenset[type] = frozenset({type, abc.ABCMeta, enum.EnumMeta})
"""Metaclasses whose checks run no code of the user's but registered ABCs and `__subclasshook__`."""


def is_native(vm: VM, cls: type, name: str) -> bool:
    """Whether a class is checked against by C code or by ABCMeta."""
    meta = type(cls)
    if meta in NATIVE_CHECKS:
        return True
    return vm.raw_type_lookup(meta, name) in (type.__dict__.get(name), abc.ABCMeta.__dict__.get(name))


def is_subclass(vm: VM, sub: type, cls: type) -> bool:
    """issubclass for real. An abstract base class may have a class registered later: that it has not is guarded by abc's own counter."""
    found = issubclass(sub, cls)
    if not found and issubclass(type(cls), abc.ABCMeta):
        vm.read_setting(abc.get_cache_token)
    return found


def is_union(value: Any) -> bool:
    """`int | str` or `Union[int, str]`."""
    return isinstance(value, UnionType) or get_origin(value) is Union


@models(isinstance)
def isinstance_(vm: VM, obj: Object, cls: Object) -> Object:
    return vm.const(check_instance(vm, vm.observe(obj), vm.observe(cls)))


def check_instance(vm: VM, obj: Object, cls: Object) -> bool:
    """isinstance of an observed object and an observed class, tuple or union."""
    real = cls.value
    if real is obj.cls:
        return True
    if isinstance(cls, TupleObject):
        return any(check_instance(vm, obj, vm.observe(item)) for item in cls.items(vm))
    if isinstance(real, type):
        vm.rest_on_bases(obj.cls)
        if type(real) is type:
            return real in obj.cls.__mro__ or claims(vm, obj, real)
        if is_native(vm, real, "__instancecheck__"):
            return is_subclass(vm, obj.cls, real) or claims(vm, obj, real)
        found = abstract.call_special(vm, cls, "__instancecheck__", obj)
        assert found is not None
        return abstract.truth(vm, found)
    if real is not MISSING and is_union(real):
        return any(check_instance(vm, obj, vm.const(each)) for each in get_args(real))
    if cls.cls is not type(None):
        found = abstract.call_special(vm, cls, "__instancecheck__", obj)
        if found is not None:
            return abstract.truth(vm, found)
    vm.raise_(TypeError, "isinstance() arg 2 must be a type, a tuple of types, or a union")


def claims(vm: VM, obj: Object, cls: type) -> bool:
    """Whether an object says by a `__class__` of its own that it is an instance."""
    if obj.cls.__flags__ & HEAP_TYPE == 0 or vm.raw_type_lookup(obj.cls, "__class__") is OBJECT_CLASS:
        return False
    said = vm.observe(abstract.getattr_(vm, obj, "__class__"))
    return issubclass(said.cls, type) and issubclass(said.value, cls)


@models(issubclass)
def issubclass_(vm: VM, sub: Object, cls: Object) -> Object:
    sub, cls = vm.observe(sub), vm.observe(cls)
    return vm.const(check_subclass(vm, sub, cls))


def check_subclass(vm: VM, sub: Object, cls: Object) -> bool:
    """issubclass of an observed class and an observed class, tuple or union."""
    if isinstance(cls, TupleObject):
        return any(check_subclass(vm, sub, vm.observe(item)) for item in cls.items(vm))
    real = cls.value
    if isinstance(real, type) and not is_native(vm, real, "__subclasscheck__"):
        found = abstract.call_special(vm, cls, "__subclasscheck__", sub)
        assert found is not None
        return abstract.truth(vm, found)
    if not issubclass(sub.cls, type):
        vm.raise_(TypeError, "issubclass() arg 1 must be a class")
    if isinstance(real, type):
        vm.rest_on_bases(sub.value)
        return is_subclass(vm, sub.value, real)
    if real is not MISSING and is_union(real):
        return any(check_subclass(vm, sub, vm.const(each)) for each in get_args(real))
    vm.raise_(TypeError, "issubclass() arg 2 must be a class, a tuple of classes, or a union")


@models(abc.ABCMeta.__instancecheck__)
def abc_instance(vm: VM, cls: Object, obj: Object) -> Object:
    return vm.const(is_subclass(vm, vm.observe(obj).cls, vm.observe(cls).constant(vm)))


@models(abc.ABCMeta.__subclasscheck__)
def abc_subclass(vm: VM, cls: Object, sub: Object) -> Object:
    return vm.const(is_subclass(vm, vm.observe(sub).constant(vm), vm.observe(cls).constant(vm)))
