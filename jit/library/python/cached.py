"""functools.lru_cache: caches of libraries and of functions that compute numbers are asked while tracing, and by guards."""

from __future__ import annotations

import functools
import gc
from dataclasses import field
from types import FunctionType, MethodType
from typing import Any

import torch

from framejit import breaks
from framejit.guards.caches import CachedFunction
from framejit.guards.kinds import AddressIs, same_constant
from framejit.guards.source import MISSING, Pinned, Source
from framejit.library.directives.declared import said_of
from framejit.library.python.program_caches import cached_result, has_only_called_caches
from framejit.objects.core import abstract
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.object import VM, Codegen, Namespace, Object
from framejit.objects.core.registry import is_pure, pure, wraps
from framejit.objects.numbers.numberobject import NumberObject, has_symbols
from framejit.objects.numbers.unbackednumber import UnbackedValue
from framejit.objects.types.constobject import SCALARS
from framejit.objects.types.funcobject import MethodObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.program import classes, code_kinds
from framejit.quick_dataclass import dataclass
from framejit.said.functions import Treatment

NUMBERS: tuple[type, ...] = (*SCALARS, type(None))
NEED_ARGUMENTS_ALONE: set[tuple[str, str]] = set()
"""Functions of libraries, by module and qualified name, that read nothing but their arguments, and whose results nothing changes or tells from equal ones."""


class CachedFunctionObject(Object):
    """A function under lru_cache. Its cache may hold a different result from what a computation would give now, and returns the same object each time.

    So the cache is asked while tracing, and again by a guard: its result is a value from outside. It is assumed not to matter to a library when such a
    function runs for the first time. Nor does it for a function of the program that computes a number from constants. The program's other functions are
    called where the program calls them, by a break.
    """

    __slots__ = ()

    def function(self) -> Any:
        """The cached function, as immutable as the wrapper, which is known by identity; None if `__wrapped__` is another, or isn't set yet."""
        found = getattr(self.value, "__wrapped__", None)
        return found if any(found is held for held in gc.get_referents(self.value)) else None

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        function = self.function()
        if type(function) is MethodType and is_of_program(function.__func__):
            return self.result_of_program(vm, function, args, kwargs)
        if type(function) is not FunctionType:
            vm.unsupported(breaks.CachedCall(repr(self.value)))
        if said_of(function) is Treatment.CONSTANT:
            return abstract.call(vm, vm.pin(function), args, kwargs)
        needs_arguments_alone = (function.__module__, function.__qualname__) in NEED_ARGUMENTS_ALONE
        if needs_arguments_alone and any(map(functools.partial(varies, vm), (*args, *kwargs.values()))):
            return abstract.call(vm, vm.pin(function), args, kwargs)
        of_program = is_of_program(function)
        if of_program and not self.is_number_of_constants(vm, function, [*args, *kwargs.values()]):
            return self.result_of_program(vm, function, args, kwargs)
        given = [key(vm, arg) for arg in args]
        named = {name: key(vm, arg) for name, arg in kwargs.items()}
        if needs_arguments_alone and not any(value is MISSING for value in (*given, *named.values())):
            vm.guards.rest_on_process(f"what {function.__qualname__} keeps in its cache")
            return vm.pin(self.value(*given, **named))
        if may_read_changes(vm, function) and not is_pure(self.value):
            return self.result_of_program(vm, function, args, kwargs)
        if any(value is MISSING for value in (*given, *named.values())):
            vm.unsupported(breaks.CachedCall(function.__qualname__))
        try:
            result = self.value(*given, **named)
        except Exception:
            vm.unsupported(breaks.CachedCall(function.__qualname__))
        if of_program and not is_number(result):
            vm.unsupported(breaks.CachedCall(function.__qualname__))
        types = tuple(map(type, (*given, *named.values())))
        vm.guards.read(CachedResult(self.value, tuple(given), tuple(named.items()), types, result, function.__qualname__))
        return vm.wrap(result, vm.root_source.child(Pinned, result)) if type(result) is tuple else vm.pin(result)  # a tuple is the one in the cache

    def result_of_program(self, vm: VM, function: FunctionType | MethodType, args: list[Object], kwargs: dict[str, Object]) -> Object:
        """The result of a call of a function of the program that does more than computing a number."""
        given = [*args, *kwargs.values()]
        values = [] if any(varies(vm, arg) for arg in given) else [key(vm, arg) for arg in given]
        if len(values) == len(given) and not any(value is MISSING for value in values):
            trace: Any = vm  # which builds a graph
            found = cached_result(trace, self, function, args, kwargs, values)
            if found is not None:
                return found
        vm.unsupported(breaks.CachedCall(function.__qualname__))

    def is_number_of_constants(self, vm: VM, function: FunctionType, args: list[Object]) -> bool:
        """Return whether a function of the program computes a number from constants, reading nothing but globals that the trace hasn't changed."""
        if not vm.plain_code.computes_number(function, is_fixed=True) or vm.effects.is_mutated(vm.globals_of(function.__globals__)):
            return False
        return all(vm.observe(arg).cls in NUMBERS and vm.observe(arg).is_knowable() and not varies(vm, arg) for arg in args)

    def descriptor_get(self, vm: VM, obj: Object | None, cls: type, delivery: Delivery | None = None) -> Object:
        return self if obj is None else MethodObject(self, obj)

    def call_as_method(
        self, vm: VM, receiver: Object, args: list[Object], kwargs: dict[str, Object] | None = None, delivery: Delivery | None = None
    ) -> Object:
        return self.call(vm, [receiver, *args], kwargs or {})

    def getattr(self, vm: VM, name: str) -> Object:
        if name == "__wrapped__" and (function := self.function()) is not None:
            return vm.pin(function)
        return super().getattr(vm, name)

    def instance_dict(self, vm: VM) -> Namespace | None:
        if self.attrs is None and self.source is not None:
            vm.trail.fill(self, "attrs", vm.instance_dict_of(self))
        return self.attrs

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.value)


if hasattr(torch.cpu, "get_capabilities"):
    pure(torch.cpu.get_capabilities)
pure(torch.backends.mps.is_available)


@wraps(CachedFunction, by_identity=True)
def wrap_cached(vm: VM, value: Any, source: Source | None) -> CachedFunctionObject:
    """Wrap a function under lru_cache, from outside."""
    return CachedFunctionObject(CachedFunction, source, value)


def is_of_program(function: Any) -> bool:
    """Return whether this is a Python function of the program."""
    return type(function) is FunctionType and code_kinds.kind_of(function.__code__, function.__globals__) is code_kinds.CodeKind.PROGRAM


def may_read_changes(vm: Any, function: FunctionType) -> bool:
    """Return whether a function may read values that the trace has changed, which haven't been changed for real yet."""
    if has_only_called_caches(vm):
        return False
    return not vm.plain_code.computes_number(function, is_fixed=True) or vm.effects.is_mutated(vm.globals_of(function.__globals__))


def varies(vm: VM, arg: Object) -> bool:
    """Return whether an argument is a number that has no one value in the trace, or a tuple with such a number in it."""
    arg = vm.observe(arg)
    if isinstance(arg, TupleObject):
        return any(varies(vm, item) for item in arg.items(vm))
    return isinstance(arg, UnbackedValue) or (isinstance(arg, NumberObject) and arg.pending and has_symbols(vm, arg))


def is_number(value: Any) -> bool:
    """Return whether a value is a number, a text or None, or a tuple of such."""
    return all(map(is_number, value)) if type(value) is tuple else type(value) in NUMBERS


@dataclass(frozen=True, slots=True)
class CachedResult:
    """Asks a cache whether it still gives the same object, as the call itself would, or the same number: if it has dropped the arguments, the function
    makes another object. `types`: those of the arguments, since a cache may distinguish 1 from 1.0."""

    function: Any
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    types: tuple[type, ...]
    result: Any = field(compare=False)
    name: str

    def __call__(self) -> bool:
        try:
            found = self.function(*self.args, **dict(self.kwargs))
            return found is self.result or (is_number(found) and same_constant(found, self.result))
        except Exception:
            return False  # the call itself will report it

    def __repr__(self) -> str:
        return f"the result of {self.name}() in its cache"


def key(vm: VM, arg: Object) -> Any:
    """The real value of an argument, guarded; MISSING if the cache would run the program's code to look it up, or if there is no real value yet."""
    arg = vm.observe(arg)
    if arg.is_knowable():
        value = arg.constant(vm)
        return MISSING if classes.STAND_INS and classes.holds_stand_in(value) else value
    hashes: Any = arg.cls.__hash__
    equals: Any = arg.cls.__eq__
    if arg.value is MISSING or hashes is not object.__hash__ or equals is not object.__eq__:
        return MISSING
    if arg.source is not None:
        vm.guard(AddressIs, arg.source, arg.value)
    return arg.value
