"""isinstance and issubclass (Objects/abstract.c: object_isinstance, object_issubclass), of classes and abstract base classes."""

from __future__ import annotations

import abc
import weakref
from collections.abc import Iterable
from types import GenericAlias, UnionType, WrapperDescriptorType
from typing import Any, NoReturn, Union, get_args, get_origin

from framejit import breaks
from framejit.guards.abstract_bases import is_abstract_subclass
from framejit.guards.source import MISSING, Reference
from framejit.objects.core import abstract, differences
from framejit.objects.core.object import VM, Object, call_special
from framejit.objects.core.registry import models, pure
from framejit.objects.types.tupleobject import TupleObject
from framejit.objects.types.typefields import LIBRARIES, answers_for_itself, is_of_program
from framejit.program import classes

pure(GenericAlias, UnionType.__or__, GenericAlias.__or__, GenericAlias.__ror__, type.__or__, type.__ror__)
OBJECT_CLASS = object.__dict__["__class__"]
NESTED_TUPLES = 50
"""The largest nesting depth that is handled here: deeper ones are left to C code, which raises RecursionError at some depth."""


def checker(vm: VM, cls: type, name: str) -> Any:
    """The `__instancecheck__` or `__subclasscheck__` of a class's metaclass, if it is neither `type`'s nor ABCMeta's."""
    found = vm.raw_type_lookup(type(cls), name)
    return None if found in (type.__dict__[name], abc.ABCMeta.__dict__[name]) else found


def is_subclass(vm: VM, sub: type, cls: type) -> bool:
    """issubclass for classes, bypassing a metaclass's own `__subclasscheck__`."""
    vm.rest_on_bases(sub)
    if vm.raw_type_lookup(type(cls), "__subclasscheck__") is type.__dict__["__subclasscheck__"]:
        return classes.is_subtype(sub, cls)
    return is_abc_subclass(vm, sub, cls)


def is_abc_subclass(vm: VM, sub: type, cls: type) -> bool:
    """ABCMeta.__subclasscheck__, called for real: it fills caches, which only it sees. True stays true; else it is guarded that no class is registered later.

    The program's own hooks run in a native call.
    """
    vm.rest_on_bases(sub)
    if classes.module(cls).partition(".")[0] not in LIBRARIES:
        vm.raw_type_lookup(cls, "__subclasshook__")  # guarded: it is asked again in each call about classes that are registered
    if answers_for_itself(vm, sub) or any(map(runs_code_of_the_program, family(cls))):
        vm.unsupported(breaks.UnsupportedCall(f"a check of subclasses of {classes.qualname(cls)}, which may run code of the program's"))
    try:
        found = is_abstract_subclass(Reference(sub), Reference(cls))
    except Exception as error:
        vm.unsupported(breaks.UnsupportedCall(f"a check of subclasses of {classes.qualname(cls)}, which raises {type(error).__name__},"))
    if id(cls) in classes.STAND_INS:
        return found  # nothing can be registered with a class that the trace makes
    if id(sub) in classes.STAND_INS:
        for base in classes.mro(sub):
            if id(base) not in classes.STAND_INS and base is not object:
                is_abc_subclass(vm, base, cls)  # guarded
        return found
    return bool((vm.guards.vouch if found else vm.guards.vouch_for_abc)(is_abstract_subclass, sub, cls))


def family(cls: type) -> Iterable[type]:
    """The class, and all classes whose subclasses count as its subclasses: derived from it or registered with it."""
    seen: dict[type, None] = {cls: None}
    waiting = [cls]
    while waiting:
        each = waiting.pop()
        below = type.__dict__["__subclasses__"](each)
        if isinstance(each, abc.ABCMeta):
            below += [found for found in (reference() for reference in abc._get_dump(each)[0]) if found is not None]  # type: ignore[attr-defined]
        for other in below:
            if other not in seen:
                seen[other] = None
                waiting.append(other)
    return seen


def runs_code_of_the_program(cls: type) -> bool:
    """Return whether the class checks for subclasses with code that is neither CPython's nor a library's."""
    return any(map(is_of_program, (classes.lookup(cls, "__subclasshook__"), classes.lookup(type(cls), "__subclasscheck__"))))


def may_claim(vm: VM, obj: Object) -> bool:
    """Return whether the `__class__` of an object may differ from its type."""
    cls = obj.cls
    if not classes.flags(cls) & classes.HEAP_TYPE:
        return cls in weakref.ProxyTypes
    return vm.raw_type_lookup(cls, "__class__") is not OBJECT_CLASS or type(vm.raw_type_lookup(cls, "__getattribute__")) is not WrapperDescriptorType


@models(isinstance)
def isinstance_(vm: VM, obj: Object, cls: Object) -> Object:
    return vm.const(check_instance(vm, vm.observe(obj), vm.observe(cls)))


def check_instance(vm: VM, obj: Object, cls: Object, depth: int = 0) -> bool:
    """object_recursive_isinstance, of an observed object and an observed class, tuple or union."""
    real = cls.value
    if real is obj.cls:
        return True
    if cls.cls is type:
        return is_instance(vm, obj, real)
    alternatives = those_of(vm, cls, depth)
    if alternatives is not None:
        return any(check_instance(vm, obj, vm.observe(each), depth + 1) for each in alternatives)
    if classes.module(cls.cls) == "typing" and real is not MISSING and get_origin(real) is Union:
        return any(check_subclass(vm, vm.const(obj.cls), vm.const(each)) for each in get_args(real))
    if issubclass(cls.cls, type) and checker(vm, real, "__instancecheck__") is None:
        if vm.raw_type_lookup(cls.cls, "__instancecheck__") is type.__dict__["__instancecheck__"]:
            return is_instance(vm, obj, real)
        return is_abc_instance(vm, obj, cls)
    found = call_special(vm, cls, "__instancecheck__", obj)
    if found is None:
        reject_abstract(vm, cls, "isinstance() arg 2 must be a type, a tuple of types, or a union")
    return abstract.truth(vm, found)


def those_of(vm: VM, cls: Object, depth: int) -> list[Object] | None:
    """The classes in a tuple or a union; None for anything else."""
    if cls.cls is UnionType:
        return [vm.const(each) for each in get_args(cls.value)]
    if not isinstance(cls, TupleObject):
        return None
    if depth > NESTED_TUPLES:
        vm.unsupported(breaks.UnsupportedCall("a type check with very deeply nested tuples"))
    return cls.items(vm)


def is_instance(vm: VM, obj: Object, cls: type) -> bool:
    """object_isinstance: by the type, otherwise by the object's `__class__`."""
    vm.rest_on_bases(obj.cls)
    if classes.is_subtype(obj.cls, cls):
        return True
    said = abstract.lookup_attr(vm, obj, "__class__") if may_claim(vm, obj) else None
    if said is None or not issubclass(vm.observe(said).cls, type):
        return False
    kind = vm.observe(said).constant(vm)
    vm.rest_on_bases(kind)
    return classes.is_subtype(kind, cls)


def is_abc_instance(vm: VM, obj: Object, cls: Object) -> bool:
    """_abc._abc_instancecheck: by the object's `__class__`, and by its type."""
    own = vm.const(obj.cls)
    said: Object | None = own
    if may_claim(vm, obj):
        said = abstract.lookup_attr(vm, obj, "__class__") if differences.ABC_ACCEPTS_NO_CLASS else abstract.getattr_(vm, obj, "__class__")
    said = own if said is None else vm.observe(said)
    return check_subclass(vm, said, cls) or (said.value is not obj.cls and check_subclass(vm, own, cls))


@models(issubclass)
def issubclass_(vm: VM, sub: Object, cls: Object) -> Object:
    return vm.const(check_subclass(vm, vm.observe(sub), vm.observe(cls)))


def check_subclass(vm: VM, sub: Object, cls: Object, depth: int = 0) -> bool:
    """object_issubclass, of an observed class and an observed class, tuple or union."""
    real = cls.value
    alternatives = those_of(vm, cls, depth)
    if alternatives is not None:
        return any(check_subclass(vm, sub, vm.observe(each), depth + 1) for each in alternatives)
    if issubclass(cls.cls, type) and checker(vm, real, "__subclasscheck__") is None:
        if not issubclass(sub.cls, type):
            if vm.raw_type_lookup(cls.cls, "__subclasscheck__") is not type.__dict__["__subclasscheck__"]:
                vm.raise_(TypeError, "issubclass() arg 1 must be a class")  # ABCMeta's doesn't ask for `__bases__`
            reject_abstract(vm, sub, "issubclass() arg 1 must be a class")
        return is_subclass(vm, sub.constant(vm), real)
    found = call_special(vm, cls, "__subclasscheck__", sub)
    if found is None:
        if not issubclass(sub.cls, type):
            reject_abstract(vm, sub, "issubclass() arg 1 must be a class")
        reject_abstract(vm, cls, "issubclass() arg 2 must be a class, a tuple of classes, or a union")
    return abstract.truth(vm, found)


def reject_abstract(vm: VM, cls: Object, complaint: str) -> NoReturn:
    """check_class, for an object that isn't a class: with a tuple of `__bases__` it counts as one, which only C code can check."""
    bases = abstract.lookup_attr(vm, cls, "__bases__")
    if bases is None or not issubclass(vm.observe(bases).cls, tuple):
        vm.raise_(TypeError, complaint)
    vm.unsupported(breaks.UnsupportedCall(f"a check with a {classes.qualname(cls.cls)}, which passes for a class by its __bases__,"))


def observed_class(vm: VM, cls: Object) -> type:
    """The real class on which one of the metaclasses' methods was called."""
    cls = vm.observe(cls)
    if not issubclass(cls.cls, type):
        vm.unsupported(breaks.UnsupportedCall(f"a metaclass's method of a {classes.qualname(cls.cls)}"))
    return cls.constant(vm)  # type: ignore[no-any-return]


@models(type.__dict__["__instancecheck__"])
def type_instancecheck(vm: VM, cls: Object, obj: Object) -> Object:
    return vm.const(is_instance(vm, vm.observe(obj), observed_class(vm, cls)))


@models(type.__dict__["__subclasscheck__"])
def type_subclasscheck(vm: VM, cls: Object, sub: Object) -> Object:
    real, kind = observed_class(vm, cls), observed_class(vm, sub)
    vm.rest_on_bases(kind)
    return vm.const(classes.is_subtype(kind, real))


@models(abc.ABCMeta.__instancecheck__)
def abc_instance(vm: VM, cls: Object, obj: Object) -> Object:
    observed_class(vm, cls)
    return vm.const(is_abc_instance(vm, vm.observe(obj), vm.observe(cls)))


@models(abc.ABCMeta.__subclasscheck__)
def abc_subclass(vm: VM, cls: Object, sub: Object) -> Object:
    return vm.const(is_abc_subclass(vm, observed_class(vm, sub), observed_class(vm, cls)))
