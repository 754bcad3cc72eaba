"""Decides whether two values from outside are the same object, and guards it, so that the answer holds in all calls that the entry serves."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from types import FunctionType, WrapperDescriptorType
from typing import Any

from framejit import breaks
from framejit.guards.container_sources import DictKey, SetElement
from framejit.guards.kinds import ValueIs
from framejit.guards.relations import Distinct, Same
from framejit.guards.source import MISSING
from framejit.objects.core.addresses import may_be_address
from framejit.objects.core.hash_keys import FieldsKey
from framejit.objects.core.object import VM, Object, settle
from framejit.objects.core.registry import wrapper_for
from framejit.program import classes

VALUE_TYPES = frozenset({int, float, complex, str, bytes, datetime.date, datetime.timedelta})
"""Immutable types in C that compare and hash by value, without running code of the program's."""
UNIQUE = frozenset({bool, type(None), type(...), type(NotImplemented)})
"""Types whose equal values are one object."""


def same_value(vm: VM, a: Object, b: Object, unsure: bool) -> bool:
    """`is` for two values of one type that have real objects; guards what the answer depends on. `unsure`: whether more than equality is asked for."""
    if issubclass(a.cls, (int, float, str, bytes, complex, tuple)) and a.is_knowable() and b.is_knowable():
        left, right = a.constant(vm), b.constant(vm)
        alike = left == right or (left != left and right != right)
        if left is right or (issubclass(a.cls, tuple) and a.value is b.value):  # the constant of a tuple is made of those of its items
            # Equal values need not be the same object next time; if only equality is asked for, this matters only for a NaN.
            if unsure or left != left:
                guard_same(vm, a, b)
            return True
        if alike and type(left) is type(right):
            if unsure and (a.source is None or b.source is None):
                vm.unsupported(breaks.UnsupportedOperation("`is` between equal values, whose identity is an accident"))
            if unsure or left != left:
                guard_distinct(vm, a, b)
        return False
    if a.value is b.value:
        guard_same(vm, a, b)
        return True
    guard_distinct(vm, a, b)
    return False


def tell_apart(vm: VM, known: dict[int, tuple[Object, bool]], obj: Object, is_fixed: bool = False) -> Object:
    """The value, looked up by identity. `known`: the values so looked up before; it is guarded to be none of them, unless it is among them. `is_fixed`: a guard
    fixes its identity, so that it needn't be guarded against others whose identity is fixed."""
    if id(obj) not in known:
        others = [other for other, fixed in known.values() if other.cls is obj.cls and not (fixed and is_fixed)]
        guard_distinct(vm, obj, *(other for other in others if not are_of_one_container(obj, other)))
        known[id(obj)] = obj, is_fixed
        vm.trail.learned(obj, known.pop, id(obj))
    return obj


def value_key(vm: VM, obj: Object, hashes: Any, equals: Any) -> Any:
    """A dict key or set element that hashes by its value; MISSING if code of the program's hashes or compares it, or code in C that the trace doesn't know.

    If both special methods are C code of a type whose instances can't change, the value itself stands for it: a subclass of int
    that equals 1 is found as 1. Its identity is guarded, since nothing else determines its value.
    """
    fields = frozen_fields(obj.cls, hashes, equals)
    if fields is not None:
        return FieldsKey(id(obj.cls), tuple(field_key(vm, obj, name) for name in fields))
    owners = [getattr(method, "__objclass__", None) for method in (hashes, equals)]
    if not all(owner in VALUE_TYPES and type(method) is WrapperDescriptorType for owner, method in zip(owners, (hashes, equals))):
        return MISSING
    if obj.source is None or obj.value is MISSING:
        vm.unsupported(breaks.UnsupportedOperation(f"a {classes.qualname(obj.cls)} made by the compiled function as a key"))
    vm.guard(ValueIs, obj.source, obj.value)
    return obj.value


def frozen_fields(cls: type, hashes: Any, equals: Any) -> tuple[str, ...] | None:
    """The names of the fields that instances are compared by, if these methods are the ones that dataclasses make for a frozen class; None otherwise."""
    owner = next((base for base in classes.mro(cls) if "__dataclass_params__" in classes.class_dict(base)), object)
    own = classes.class_dict(owner)
    if own.get("__hash__") is not hashes or own.get("__eq__") is not equals or type(hashes) is not FunctionType or type(equals) is not FunctionType:
        return None
    params, fields = own["__dataclass_params__"], [field for field in own["__dataclass_fields__"].values() if field._field_type is dataclasses._FIELD]  # type: ignore[attr-defined]
    compared = tuple(field.name for field in fields if field.compare)
    hashed = tuple(field.name for field in fields if (field.compare if field.hash is None else field.hash))
    if not params.frozen or not params.eq or hashed != compared:
        return None
    return compared if made_for(compared) == (code_of(hashes), code_of(equals)) else None


@functools.lru_cache(maxsize=256)
def made_for(names: tuple[str, ...]) -> tuple[Any, Any]:
    """The code of the methods that dataclasses makes for a frozen class with these fields."""
    cls: Any = dataclasses.make_dataclass("Made", names, frozen=True)
    return code_of(cls.__hash__), code_of(cls.__eq__)


def code_of(function: FunctionType) -> tuple[Any, ...]:
    """Describe what a function's code does, without its name and its place."""
    code = function.__code__
    return code.co_code, code.co_consts, code.co_names, code.co_varnames, function.__closure__


def field_key(vm: VM, obj: Object, name: str) -> Any:
    """The hash key of a field."""
    key = vm.observe(obj.getattr(vm, name)).hash_key(vm)
    if key != key or (may_be_address(key) and type(key) is not int):
        vm.unsupported(breaks.ComparesByPython(f"a {classes.qualname(obj.cls)} with nan or an address in it"))
    return key


def are_of_one_container(a: Object, b: Object) -> bool:
    """Return whether two values are known to differ because they are keys of one dict, or elements of one set."""
    return any(isinstance(a.source, kind) and isinstance(b.source, kind) and a.source.base is b.source.base for kind in (DictKey, SetElement))


def guard_same(vm: VM, a: Object, b: Object) -> None:
    """Guard that two values, which are one object in this call, are so in others, unless the values' own guards imply it."""
    if type(a.value) in UNIQUE or (type(a.value) is int and -5 <= a.value <= 256) or is_guarded_by_identity(a):
        return
    if a.source is not None and b.source is not None:
        if a.source is not b.source:
            vm.relate(Same, a.source, b.source)
    elif a.source is not None:
        vm.guard(ValueIs, a.source, a.value)
    elif b.source is not None:
        vm.guard(ValueIs, b.source, b.value)


def guard_distinct(vm: VM, obj: Object, *others: Object) -> None:
    """Guard that a value from outside is none of some others of its type, as in this call."""
    sources = tuple(other.source for other in others if other.source is not None)
    if obj.source is not None and sources and not is_guarded_by_identity(obj):
        vm.relate(Distinct, obj.source, sources)


def is_guarded_by_identity(obj: Object) -> bool:
    """Return whether observing the value guards its identity."""
    return wrapper_for(obj.cls).by_identity and not settle(obj).guarded_by_name
