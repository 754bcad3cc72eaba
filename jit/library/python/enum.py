"""enum: classes of constants, whose look-ups and iteration are computed while tracing."""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from framejit import breaks
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, NotConstant, Object, Raise, fold
from framejit.objects.core.registry import Model, around, models
from framejit.objects.types import typefields
from framejit.objects.types.constobject import EnumObject
from framejit.objects.types.funcobject import FunctionObject
from framejit.objects.types.iterobject import SequenceIterator, tuple_iterator
from framejit.objects.types.tupleobject import TupleObject
from framejit.objects.types.typeobject import TypeObject
from framejit.program import classes

EnumType: Any = enum.EnumMeta


def folded(function: Callable[..., Any], asks: str = "", shows_name: bool = False) -> None:
    """Register a method of enum classes that may be called on constants. `asks`: the method of a class or a member that it calls in turn.

    `shows_name`: the name of the class is in what it returns.
    """

    def model(vm: VM, *args: Object, **kwargs: Object) -> Object:
        if is_of_trace(vm, args[0]):
            return traced(vm, function, *args, **kwargs)
        objs = [vm.observe(arg) for arg in args]
        try:
            real = [obj.constant(vm) if isinstance(obj, EnumObject) else obj.as_real(vm) for obj in objs]
        except NotConstant:  # such as a member of a class that the trace has made
            return traced(vm, function, *args, **kwargs)
        if shows_name:
            typefields.name_of(vm, real[0] if isinstance(real[0], type) else type(real[0]))
        if asks and not is_enums_own(vm, real, asks):
            if isinstance(objs[0], EnumObject):
                return traced(vm, function, *args, **kwargs)
            vm.unsupported(breaks.UnsupportedCall(f"{function.__qualname__}, which calls {asks} of {vm.observe(args[0]).name_when_called}"))
        return fold(vm, function, *real, **{name: vm.observe(arg).as_real(vm) for name, arg in kwargs.items()})

    models(function)(model)


def is_of_trace(vm: VM, owner: Object) -> bool:
    """Return whether the trace has made a class of constants, or that of a member: its look-ups are traced."""
    owner = vm.observe(owner)
    return id(owner.value if isinstance(owner, TypeObject) else owner.cls) in classes.STAND_INS


def traced(vm: VM, function: Any, *args: Object, **kwargs: Object) -> Object:
    """The result of a function's own code."""
    own = vm.pin(function)
    assert isinstance(own, FunctionObject)
    return own.inline(vm, list(args), kwargs)


def is_enums_own(vm: VM, real: list[Any], name: str) -> bool:
    """Return whether no code of the program runs when the method is called on these arguments."""
    cls: Any = real[0] if isinstance(real[0], type) else type(real[0])
    if name == "_missing_" and any(member is real[1] or (type(member._value_) is type(real[1]) and member._value_ == real[1]) for member in cls):
        return True
    if name == "__repr__" and type(real[0]._value_) not in PLAIN:
        return False
    found = vm.raw_type_lookup(cls, name)
    return getattr(getattr(found, "__func__", found), "__module__", "enum") == "enum"


PLAIN = frozenset({int, float, bool, complex, str, bytes, type(None)})
folded(EnumType.__call__, "_missing_")


@around(EnumType.__call__)
def member_of_value(vm: VM, cls: Object, *args: Object, own: Model, **kwargs: Object) -> Object:
    """`Cls(value)`. For a value that no member has, the class's own `_missing_` is called, which is traced."""
    given = [vm.observe(arg) for arg in args]
    is_look_up = len(given) == 1 and not kwargs
    if is_of_trace(vm, cls):
        return traced(vm, EnumType.__call__, cls, *args, **kwargs) if is_look_up else made_by_call(vm, cls, *args, **kwargs)
    real = vm.observe(cls).constant(vm)
    if not real._member_map_ and not is_look_up:
        return made_by_call(vm, cls, *args, **kwargs)
    missing = vm.raw_type_lookup(real, "_missing_") if len(given) == 1 and not kwargs and type(real) is EnumType else None
    if not isinstance(missing, classmethod) or type(missing.__func__) is not FunctionType or given[0].cls not in PLAIN:
        return own(vm, cls, *args, **kwargs)
    if is_enums_own(vm, [real, given[0].constant(vm)], "_missing_") or not makes_members_by_value(vm, real):
        return own(vm, cls, *args, **kwargs)
    try:
        found = vm.observe(abstract.call(vm, abstract.getattr_(vm, vm.const(real), "_missing_"), given))
    except Raise:
        return own(vm, cls, *args, **kwargs)  # which breaks: the exception's context is the error that the member is missing
    return found if isinstance(found, EnumObject) and found.cls is real else own(vm, cls, *args, **kwargs)


def made_by_call(vm: VM, cls: Object, *args: Object, **kwargs: Object) -> Object:
    """`Enum(name, members)`. The new class is of the module that calls it, which EnumType looks for in frames."""
    given = kwargs.get("module")
    if given is None or vm.observe(given).cls is type(None):
        found = None if hasattr(sys, "_getframemodulename") else vm.caller(0)  # newer Pythons ask the calling function for its module
        module = None if found is None else found[0].globals.lookup(vm, "__name__")  # type: ignore[attr-defined]
        if module is None:
            vm.unsupported(breaks.UnsupportedCall("making an enum by a call that doesn't name its module"))
        kwargs = {**kwargs, "module": module}
    return traced(vm, EnumType.__call__, cls, *args, **kwargs)


def makes_members_by_value(vm: VM, cls: type) -> bool:
    """Return whether `Cls(value)` runs no more of the program's code than `_missing_`."""
    new = vm.raw_type_lookup(cls, "__new__")
    return getattr(new, "__func__", new) is enum.Enum.__new__


for _name in ("__getitem__", "__contains__", "__len__", "__bool__"):
    folded(getattr(EnumType, _name))
CONTAINS_WARNS = "warn" in EnumType.__contains__.__code__.co_names
"""Before Python 3.12, `value in Cls` warns of values that are no members."""


@around(EnumType.__contains__)
def has_member(vm: VM, cls: Object, value: Object, own: Model) -> Object:
    """`value in Cls`."""
    may_warn = CONTAINS_WARNS and not issubclass(vm.observe(value).cls, enum.Enum)
    return traced(vm, EnumType.__contains__, cls, value) if may_warn else own(vm, cls, value)


folded(EnumType.__repr__, shows_name=True)
folded(enum.Enum.__hash__)
for _name, _asked in {"__repr__": "__repr__", "__str__": "__str__", "__format__": "__str__"}.items():
    folded(getattr(enum.Enum, _name), _asked, shows_name=True)
for _name in ("__or__", "__and__", "__xor__", "__invert__", "__contains__", "__bool__", "__len__"):
    folded(getattr(enum.Flag, _name))
for _name in ("__or__", "__and__", "__xor__"):
    if getattr(enum.Flag, f"__r{_name[2:]}") is not getattr(enum.Flag, _name):
        folded(getattr(enum.Flag, f"__r{_name[2:]}"))


@models(EnumType.__iter__, enum.Flag.__iter__)
def members(vm: VM, owner: Object) -> Object:
    if is_of_trace(vm, owner):
        return traced(vm, EnumType.__iter__ if isinstance(vm.observe(owner), TypeObject) else enum.Flag.__iter__, owner)
    return SequenceIterator(TupleObject([vm.const(member) for member in vm.observe(owner).constant(vm)]), tuple_iterator)


@models(EnumType.__reversed__)
def members_reversed(vm: VM, owner: Object) -> Object:
    if is_of_trace(vm, owner):
        return traced(vm, EnumType.__reversed__, owner)
    return SequenceIterator(TupleObject([vm.const(member) for member in reversed(vm.observe(owner).constant(vm))]), tuple_iterator)


def add_alias(vm: VM, *args: Object) -> Object:
    vm.unsupported(breaks.UnsupportedOperation("adding an alias to a class of constants, whose look-ups are computed while tracing"))


for _name in ("_add_alias_", "_add_value_alias_"):
    if hasattr(enum.Enum, _name):
        models(getattr(enum.Enum, _name))(add_alias)
