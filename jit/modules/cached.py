"""functools.lru_cache: when a function behind a cache may be traced in its place, and when the cache may know another answer."""

from __future__ import annotations

import enum
import functools
import gc
import sys
from dataclasses import dataclass
from types import (
    BuiltinFunctionType,
    CellType,
    ClassMethodDescriptorType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any

from framejit import breaks, library
from framejit.classes import lookup
from framejit.guards.kinds import DictKeys, Equals, Guard, IsPresent, Length, Same, TypeIs, ValueIs
from framejit.guards.source import MISSING, CAttr, DictKey, FunctionField, Index, Item, Local, Pinned, Source
from framejit.modules.ecosystem import ASSUMED_CONSTANT
from framejit.modules.torch import FIXED, GUARDED_ANYWAY, READS
from framejit.objects import abstract
from framejit.objects.dictobject import DictObject
from framejit.objects.funcobject import MethodObject
from framejit.objects.object import Object
from framejit.objects.registry import wraps
from framejit.objects.tupleobject import TupleObject

if TYPE_CHECKING:
    from framejit.objects.vm import VM, Codegen

CachedFunction: type = type(functools.lru_cache(abstract.iterate))
STEADY = (
    FunctionType, BuiltinFunctionType, type, ModuleType, enum.Enum, CellType, CachedFunction, property, classmethod, staticmethod,
    MethodDescriptorType, ClassMethodDescriptorType, WrapperDescriptorType, GetSetDescriptorType, MemberDescriptorType,
)  # fmt: skip
"""Types of what programs define once: a cached function that finds them by a name computes today what it computed before."""
UNSTEADY = frozenset(READS) - FIXED | {*GUARDED_ANYWAY}
"""Functions that answer by the settings of the process."""
SCALARS = (int, float, str, bytes, bool, type(None))


class CachedFunctionObject(Object):
    """A function under lru_cache. It is traced rather than looked up where nothing but its arguments can decide what it returns, and
    where which object it returns doesn't matter: then what the trace computes is what the cache has, or would have.

    Where a function of a library returns an object that is one and the same each time, or reads what may have changed since the cache was filled,
    but does nothing else, the cache is asked while tracing, and again by a guard: the object is a value from outside. The program's own
    functions are left to eager then: it may ask the cache how often it was hit.
    """

    __slots__ = ()

    def function(self) -> Any:
        """The function behind the cache, as immutable as the wrapper, which is known by identity; None where `__wrapped__` is another, or not there yet."""
        found = getattr(self.value, "__wrapped__", None)
        return found if any(found is held for held in gc.get_referents(self.value)) else None

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object]) -> Object:
        function = self.function()
        if function is None:
            vm.unsupported(breaks.CachedCall(repr(self.value)))
        if not getattr(function, ASSUMED_CONSTANT, False):
            given = [real_argument(vm, arg) for arg in args]
            named = {name: real_argument(vm, arg) for name, arg in kwargs.items()}
            look = Look(vm)
            if not all(map(is_key, [*given, *named.values()])) or not vm.holds_apart(function, tuple(given), named, look.at_result, look.at_guard):
                vm.unsupported(breaks.CachedCall(function.__qualname__))
            if not look.traceable:
                if not look.askable or library.kind_of(function.__code__, function.__globals__) is library.CodeKind.PROGRAM:
                    vm.unsupported(breaks.CachedCall(function.__qualname__))
                return self.cached(vm, function, args, kwargs)
        return abstract.call(vm, vm.pin(function), args, kwargs)

    def cached(self, vm: VM, function: Any, args: list[Object], kwargs: dict[str, Object]) -> Object:
        """The object that the cache has for the arguments; the guard asks the cache for it again."""
        given = [key_argument(vm, arg) for arg in args]
        named = {name: key_argument(vm, arg) for name, arg in kwargs.items()}
        if any(value is MISSING for value in (*given, *named.values())):
            vm.unsupported(breaks.CachedCall(function.__qualname__))
        try:
            result = self.value(*given, **named)
        except Exception:
            vm.unsupported(breaks.CachedCall(function.__qualname__))
        vm.read_setting(CachedResult(self.value, tuple(given), tuple(named.items()), result))
        return vm.pin(result)

    def descriptor_get(self, vm: VM, obj: Object | None, cls: type) -> Object:
        return self if obj is None else MethodObject(self, obj)

    def call_as_method(self, vm: VM, receiver: Object, args: list[Object], kwargs: dict[str, Object] | None = None) -> Object:
        return self.call(vm, [receiver, *args], kwargs or {})

    def getattr(self, vm: VM, name: str) -> Object:
        if name == "__wrapped__" and (function := self.function()) is not None:
            return vm.pin(function)
        return super().getattr(vm, name)

    def instance_dict(self, vm: VM) -> DictObject | None:
        if self.attrs is None and self.source is not None:
            vm.trail.set(self, "attrs", vm.instance_dict_of(self))
        return self.attrs

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.value)


@wraps(CachedFunction, by_identity=True)
def wrap_cached(vm: VM, value: Any, source: Source | None) -> CachedFunctionObject:
    """A function under lru_cache, from outside."""
    return CachedFunctionObject(CachedFunction, source, value)


@dataclass(frozen=True, slots=True, eq=False)
class CachedResult:
    """Asks a cache whether it still gives the same object, as the call itself would: where it doesn't know the arguments any more, the function
    makes another one. Only functions that do nothing else are asked."""

    function: Any
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    result: Any

    def __call__(self) -> bool:
        try:
            return self.function(*self.args, **dict(self.kwargs)) is self.result
        except Exception:
            return False  # the call itself will say so

    def __repr__(self) -> str:
        return f"the result of {self.function.__qualname__}() in its cache"


class Look:
    """What a trace of the function by itself shows.

    `traceable`: nothing but its arguments decides what it returns, and that is a constant. `askable`: it does nothing but to return something, and
    the trace that calls it has changed nothing that it reads: whether it runs there or before the trace's graph makes no difference.
    """

    def __init__(self, vm: VM) -> None:
        self.traceable = True
        self.askable = False
        effects = [logged.effect for logged in vm.effects.order()]
        objects = [effect for effect in effects if isinstance(effect, Object)]
        self.changed = {id(obj.value) for obj in objects} if len(objects) == len(effects) else None

    def at_result(self, vm: VM, result: Object) -> bool:
        """The function has come to its end."""
        self.traceable = is_constant_result(vm, result)
        self.askable = self.changed is not None and not any(id(obj.value) in self.changed for obj in vm.shared_values())
        return True

    def at_guard(self, guard: Guard, value: Any) -> bool:
        """It has read something. Settings of the process may be others where the trace's graph begins."""
        self.traceable = self.traceable and is_steady(guard, value)
        return self.traceable or not (isinstance(value, (FunctionType, BuiltinFunctionType)) and value in UNSTEADY)


def key_argument(vm: VM, arg: Object) -> Any:
    """The real value of an argument, guarded; MISSING where a cache would run code of the program's to find it."""
    arg = vm.observe(arg)
    if arg.is_knowable():
        return arg.constant(vm)
    hashes: Any = arg.cls.__hash__
    equals: Any = arg.cls.__eq__
    if arg.value is MISSING or hashes is not object.__hash__ or equals is not object.__eq__:
        return MISSING
    if arg.source is not None:
        vm.guard(ValueIs, arg.source, arg.value)
    return arg.value


class Opaque:
    """Stands for an argument that the trace has made, and that has no real value: the function must not look at it."""


def real_argument(vm: VM, arg: Object) -> Any:
    """The real value, guarded by nothing."""
    arg = vm.observe(arg)
    if arg.value is not MISSING:
        return arg.value
    hashes: Any = arg.cls.__hash__
    return arg.constant(vm) if arg.is_knowable() else Opaque() if hashes is object.__hash__ else MISSING


def is_key(value: Any) -> bool:
    """Whether a value can be the key of a cache without that code of the program's runs, which hashes or compares it; a value that the trace has
    made, and that is no constant, has no hash yet."""
    if value is MISSING or any(map(is_of_program, (lookup(type(value), "__hash__"), lookup(type(value), "__eq__")))):
        return False
    return not issubclass(type(value), tuple) or all(map(is_key, tuple.__iter__(value)))


def is_of_program(method: Any) -> bool:
    """Whether a special method is none, or a function of the program's."""
    if type(method) is not FunctionType:
        return method is None
    return library.kind_of(method.__code__, method.__globals__) is library.CodeKind.PROGRAM


def is_constant_result(vm: VM, result: Object) -> bool:
    """Whether the result is a constant through and through, so that another one that is equal to it is as good."""
    result = vm.observe(result)
    if isinstance(result, TupleObject):
        return all(is_constant_result(vm, item) for item in result.items(vm))
    if result.is_knowable():
        result.constant(vm)
        return True
    return False


def is_steady(guard: Guard, value: Any) -> bool:
    """Whether what is guarded is an argument, or something that programs define once."""
    source = guard.source
    if isinstance(guard, Same) or value is MISSING:
        return True
    if is_argument(source):
        return type(value) is not Opaque and isinstance(guard, (TypeIs, Equals, ValueIs, Length, IsPresent, DictKeys))
    if isinstance(value, (FunctionType, BuiltinFunctionType)) and value in UNSTEADY:
        return False
    if isinstance(value, STEADY) or isinstance(source, FunctionField):
        return True
    if is_of_function(source):
        return isinstance(value, (*SCALARS, tuple))
    if isinstance(source, CAttr):
        return source.payload in ("__name__", "__qualname__", "__module__")
    if isinstance(source, Item) and isinstance(source.base, Pinned) and isinstance(source.base.payload, dict):
        return isinstance(value, type) or is_of_library(source.base.payload, source.payload, value)
    return isinstance(source, (Local, Pinned))


def is_argument(source: Source | None) -> bool:
    """Whether a path leads to an argument of the call (see `apply` in app/functools.py), or into a tuple that is one."""
    while isinstance(source, (Index, Item, DictKey)):
        source = source.base
    return isinstance(source, Local) and source.payload.name in ("args", "kwargs")


def is_of_function(source: Source | None) -> bool:
    """Whether a path leads to a default of a function's, or into one."""
    while isinstance(source, (Index, Item)):
        source = source.base
    return isinstance(source, FunctionField)


def is_of_library(namespace: dict[str, Any], name: str, value: Any) -> bool:
    """Whether a global is a constant of the standard library (`math.pi`), or torch's own name for something (`torch.float32`)."""
    module = namespace.get("__name__", "")
    if module == "torch":
        return repr(value) == f"torch.{name}"
    return module.partition(".")[0] in sys.stdlib_module_names and module != "__main__" and isinstance(value, SCALARS)
