"""The inspect and sys modules: questions that can be answered while tracing."""

from __future__ import annotations

import functools
import inspect
import sys
from types import CellType, FunctionType, MethodType
from typing import Any

from framejit import breaks
from framejit.guards.kinds import IsMissing, ValueIs
from framejit.guards.source import MISSING, FunctionField, Pinned
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import app, models, pure
from framejit.objects.types.dictobject import DictObject
from framejit.objects.types.funcobject import FunctionObject, MethodObject
from framejit.objects.types.madeclass import MadeClass
from framejit.objects.types.typeobject import TypeObject
from framejit.plain import inspect as plain
from framejit.process.recursion import limit_of_program
from framejit.program.signatures import signature_of

if hasattr(inspect, "_get_dunder_dict_of_class"):
    app(inspect._shadowed_dict)(plain.shadowed_dict)  # type: ignore[attr-defined]
pure(sys.intern, sys.getdefaultencoding, sys.getfilesystemencoding)


@models(sys.getrecursionlimit)
def recursion_limit(vm: VM) -> Object:
    return vm.const(vm.guards.read(limit_of_program))


@models(sys.get_int_max_str_digits)
def most_digits(vm: VM) -> Object:
    return vm.const(vm.guards.read(sys.get_int_max_str_digits))


SIGNATURES = ("__signature__", "__text_signature__", "_partialmethod", "__partialmethod__")
"""Attributes of functions that determine their signature."""


@models(inspect.signature)
def signature(vm: VM, target: Object, **options: Object) -> Object:
    """The real signature of a real function or method; the function's identity, and what else the answer depends on, is guarded.

    The library's own function is traced for a callable that is not real, or not of a kind whose signature is known to depend on what is guarded.
    """
    made = vm.observe(target)
    known = None
    if not options or (isinstance(made, MadeClass) and set(options) == {"annotation_format"}):  # the annotations of those are known values
        known = vm.attempt(lambda: known_signature(vm, made))
    own = vm.pin(inspect.signature)
    assert isinstance(own, FunctionObject)
    return own.inline(vm, [target], options) if known is None else known


def known_signature(vm: VM, target: Object) -> Object | None:
    """The real signature, where it can be made while tracing; None if the callable has none."""
    try:
        return vm.pin(real_signature(vm, target))
    except (TypeError, ValueError):
        return None


def real_signature(vm: VM, target: Object) -> inspect.Signature:
    """The signature of a callable."""
    if isinstance(target, TypeObject):
        return signature_of_class(vm, target)
    if target.cls is functools.partial:
        return inspect.signature(real_partial(vm, target))
    if isinstance(target, FunctionObject) and target.value is MISSING:
        return inspect.signature(like_made(vm, target))
    real = real_callable(vm, target)
    bound = type(real) is MethodType
    return signature_of(real.__func__ if bound else real, bound)


def signature_of_class(vm: VM, target: TypeObject) -> inspect.Signature:
    """The signature of a class whose instances are made by `object.__new__`, with object's `__init__` or one in Python."""
    cls = target.value
    plain = all(vm.raw_type_lookup(type(cls), name) is getattr(type, name, MISSING) for name in ("__call__", "__signature__"))
    plain = plain and vm.raw_type_lookup(cls, "__new__") is object.__new__ and vm.raw_type_lookup(cls, "__signature__") is MISSING
    if plain and vm.raw_type_lookup(cls, "__init__") is object.__init__:
        vm.rest_on_bases(cls)  # of which each may have a text that tells the signature
        return inspect.signature(cls)
    init = vm.type_lookup(cls, "__init__")
    if not plain or not isinstance(init, FunctionObject):
        vm.unsupported(breaks.UnsupportedCall(f"inspect.signature of {target.name_when_called}"))
    return inspect.signature(MethodType(like_made(vm, init), object())) if init.value is MISSING else signature_of(real_callable(vm, init), True)


def like_made(vm: VM, function: FunctionObject) -> FunctionType:
    """A real function with the same parameters as one that the trace has made."""
    if function.source is not None or (function.attrs is not None and function.attrs.open(vm)):
        vm.unsupported(breaks.UnsupportedCall(f"inspect.signature of {function.name_when_called}"))
    defaults = tuple([vm.observe(value).as_real(vm) for value in function.default_values(vm)])
    real = FunctionType(function.code, {}, function.code.co_name, defaults, tuple(CellType() for _ in function.code.co_freevars))
    annotations = function.own_field(vm, "__annotations__")
    if function.kwdefaults is not None:
        real.__kwdefaults__ = vm.observe(function.kwdefaults).as_real(vm)
    if annotations is not None:
        real.__annotations__ = vm.observe(annotations).as_real(vm)
    return real


def real_partial(vm: VM, target: Object) -> Any:
    """A real partial with the same signature."""
    function, args, keywords = (vm.observe(abstract.getattr_(vm, target, name)) for name in ("func", "args", "keywords"))
    real = like_made(vm, function) if isinstance(function, FunctionObject) and function.value is MISSING else real_callable(vm, function)
    return functools.partial(real, *args.as_real(vm), **keywords.as_real(vm))


def real_callable(vm: VM, target: Object) -> Any:
    """The real callable that has the same signature as a traced one."""
    if isinstance(target, MethodObject):
        function = vm.observe(target.function)
        if isinstance(function, FunctionObject):
            return MethodType(real_callable(vm, function), object())
    if not isinstance(target, FunctionObject) or target.value is MISSING:
        vm.unsupported(breaks.UnsupportedCall(f"inspect.signature of {target.name_when_called}"))
    rest_on_parameters(vm, target)
    attributes = target.instance_dict(vm)
    if attributes is not None:
        for name in SIGNATURES:
            if attributes.lookup(vm, name) is not None:
                vm.unsupported(breaks.UnsupportedCall(f"inspect.signature of a function with a {name}"))
        wrapped = attributes.lookup(vm, "__wrapped__")
        if wrapped is not None:
            real_callable(vm, vm.observe(wrapped))
    return target.value


def rest_on_parameters(vm: VM, function: FunctionObject) -> None:
    """Guard a function's identity, and its code, defaults and annotations."""
    if function.source is not None:
        vm.guard(ValueIs, function.source, function.value)
    base = function.source or vm.root_source.child(Pinned, function.value)
    for name in ("code", "defaults", "kwdefaults"):
        field = base.child(FunctionField, name)
        found = field.step(function.value)
        if found is MISSING:
            vm.guard(IsMissing, field)
        else:
            vm.guard(ValueIs, field, found)
    annotations = vm.observe(abstract.getattr_(vm, function, "__annotations__"))
    if not isinstance(annotations, DictObject):
        vm.unsupported(breaks.UnsupportedCall("inspect.signature of a function whose __annotations__ are no dict"))
    for _, annotation in annotations.items(vm):
        if annotation.source is not None:
            vm.guard(ValueIs, annotation.source, annotation.value)


@models(inspect.isfunction)
def isfunction(vm: VM, target: Object) -> Object:
    return vm.const(isinstance(vm.observe(target), FunctionObject))
