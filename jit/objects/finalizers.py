"""Values whose end a program can see: something runs when the last reference to them goes, or a weak reference is empty then."""

from __future__ import annotations

import array
import collections
import contextlib
import gc
import itertools
import sys
import types
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from framejit import breaks, classes
from framejit.guards.kinds import ValueIs
from framejit.guards.source import MISSING
from framejit.objects.exceptions import ExceptionObject
from framejit.objects.genobject import GeneratorObject
from framejit.objects.object import Object, settle

if TYPE_CHECKING:
    from framejit.objects.vm import VM

EMPTY: tuple[Any, ...] = ((), [], {}, {}.values(), {}.items(), set(), collections.deque())
CONTAINERS = frozenset(map(id, {
    *(tuple, list, dict, set, frozenset, collections.deque, collections.OrderedDict, collections.defaultdict),
    *(types.MappingProxyType, types.CellType, types.SimpleNamespace, types.TracebackType, types.FrameType),
    *(enumerate, filter, map, zip, reversed, itertools.chain, itertools.islice, itertools.cycle, itertools.starmap),
    *(type(iter(empty)) for empty in EMPTY),
}))  # fmt: skip
"""Types of values that let go of what they hold when they go, and which are looked into. By identity, as the other sets of types here:
a class that they are asked for may have a metaclass with a `__hash__` of the program's."""
KEEPS_RESULT = frozenset(map(id, (enumerate, zip, type(iter({}.items())), type(reversed({}.items())))))
"""Iterators that keep the last tuple they have given, to use it again. Its items are a variable's, and at the next step no longer the iterator's."""
WEAKLY_HELD = frozenset(map(id, {
    *(set, frozenset, collections.deque, collections.OrderedDict, array.array),
    *(types.MethodType, types.BuiltinMethodType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType),
}))  # fmt: skip
"""Types of C that programs make weak references to, and framejit doesn't."""
VIEWS = frozenset(map(id, (memoryview, type(iter(memoryview(b""))))))
SILENT = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None), tuple, list, dict, torch.Tensor, torch.nn.Parameter)))
METHODS = frozenset(map(id, (types.MethodType, types.BuiltinMethodType, types.MethodWrapperType)))
CALLBACK: Any = weakref.ReferenceType.__dict__["__callback__"]
MOST, MOST_DEEP = 10_000, 1_000
"""Where there are more values than so many, a container is taken to hold something that runs at its end."""


def runs_at_end(value: Any) -> bool:
    """Whether the end of a value is seen: a frame that waits, whose `finally` and `with` blocks are left; a finalizer; weak references to it.

    So is the end of a weak reference with a callback, which is not called any more then, and that of a view of a bytearray, whose size can change then.
    """
    cls = type(value)
    if id(cls) in SILENT:
        return False
    if cls is types.GeneratorType and value.gi_frame is not None:
        return True
    if cls is types.CoroutineType and value.cr_frame is not None:
        return True
    if cls is types.AsyncGeneratorType and value.ag_frame is not None:
        return True
    if id(cls) in VIEWS:
        return True
    if issubclass(cls, weakref.ReferenceType):
        return calls_back(value)
    if cls is types.FunctionType and not is_local(value):
        return False  # framejit may have weak references to it
    if cls is types.BuiltinFunctionType and type(value.__self__) in (types.ModuleType, type(None)):
        return False  # nor is this one made by a call, and guards refer to it weakly
    return has_finalizer(cls) or (may_be_weakly_held(cls) and not issubclass(cls, torch.nn.Module) and weakref.getweakrefcount(value) > 0)


def runs_code_at_end(value: Any) -> bool:
    """Whether more than memory goes when a value ends, or what it holds: a finalizer, a frame that waits, a view, the callback of a weak reference."""
    return any(
        issubclass(type(item), (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType))
        or id(type(item)) in VIEWS
        or has_finalizer(type(item))
        or (may_be_weakly_held(type(item)) and any(map(calls_back, weakref.getweakrefs(item))))
        for item in finalizers_in(value).values()
    )


def calls_back(reference: Any) -> bool:
    """Whether a weak reference, and no proxy, has a callback."""
    return issubclass(type(reference), weakref.ReferenceType) and CALLBACK.__get__(reference) is not None


def may_be_weakly_held(cls: type) -> bool:
    """Whether values of a type may get weak references that show when they end; tensors and classes are let be."""
    return is_instance(cls) or id(cls) in WEAKLY_HELD or cls is types.FunctionType


def is_local(value: Any) -> bool:
    """Whether a function or a class is none that a module has by its name."""
    is_class = issubclass(type(value), type)
    owner, qualified = (classes.module(value), classes.qualname(value)) if is_class else (value.__module__, value.__qualname__)
    named = sys.modules.get(owner) if isinstance(owner, str) else None
    for name in qualified.split("."):
        named = getattr_static(named, name)
    return named is not value


def getattr_static(owner: Any, name: str) -> Any:
    """What a module or class has of its own under a name, past any code of the program's; None where it has nothing."""
    if issubclass(type(owner), type):
        return classes.class_dict(owner).get(name)
    return object.__getattribute__(owner, "__dict__").get(name) if isinstance(owner, types.ModuleType) else None


def is_local_class(value: Any) -> bool:
    """Whether it is a class made by a function, maybe, which its bases refer to weakly."""
    return issubclass(type(value), type) and bool(classes.flags(value) & classes.HEAP_TYPE) and is_local(value)


def is_instance(cls: type) -> bool:
    """Whether values of a type are instances of a class made by a class statement, and no tensors and classes."""
    return bool(classes.flags(cls) & classes.HEAP_TYPE) and not issubclass(cls, (torch.Tensor, type))


def weakly_held(value: Any) -> bool:
    """Whether it is a module with weak references to it; most modules that are compiled have one."""
    return issubclass(type(value), torch.nn.Module) and weakref.getweakrefcount(value) > 0


def has_finalizer(cls: type) -> bool:
    """Whether instances have a `__del__`, of Python or of C (files, sockets). No metaclass is asked."""
    return classes.lookup(cls, "__del__") is not None


def inside(value: Any, deep: bool) -> Sequence[Any]:
    """What goes with a value, where that is looked into: containers, exceptions with their frames; `deep`, also methods, functions, instances."""
    cls = type(value)
    if id(cls) in KEEPS_RESULT:
        return gc.get_referents(value)[:1]
    if id(cls) in CONTAINERS or issubclass(cls, BaseException):
        return gc.get_referents(value)
    if issubclass(cls, contextlib._GeneratorContextManagerBase):
        return tuple(object.__getattribute__(value, "__dict__").values())
    if deep and cls is types.FunctionType:
        return value.__dict__, *(value.__closure__ or ())
    if deep and id(cls) in METHODS:
        return (value.__self__,)
    if deep and is_instance(cls) and not issubclass(cls, torch.nn.Module):
        return gc.get_referents(value)
    return ()


def finalizers_in(value: Any, deep: bool = False) -> dict[int, Any]:
    """By identity, the values that run something at their end: this one, or those in it."""
    most = MOST_DEEP if deep else MOST
    found: dict[int, Any] = {}
    known = {id(value)}
    waiting = [value]
    while waiting:
        item = waiting.pop()
        parts = inside(item, deep)
        if runs_at_end(item) or len(known) + len(parts) > most:
            found[id(item)] = item
            continue
        for part in parts:
            if id(part) not in known:
                known.add(id(part))
                waiting.append(part)
    return found


def ends_visibly(value: Object) -> bool:
    """Whether the end of a value in a frame of the trace can be seen: its own, or that of something it holds.

    A generator that waits counts before it has started, too: where the trace stops, its next step may run natively.
    """
    known: set[int] = set()
    waiting = [value]
    while waiting:
        item = settle(waiting.pop())
        if id(item) in known:
            continue
        known.add(id(item))
        if len(known) > MOST:
            return True
        if isinstance(item, GeneratorObject):
            if item.vm.waits(item):
                return True
        elif item.value is not MISSING and (weakly_held(item.value) or is_local_class(item.value) or finalizers_in(item.value, deep=True)):
            return True
        waiting += item.referents()
        if isinstance(item, ExceptionObject):
            waiting += (variable for variables in item.variables.values() for variable in variables.values())
        attrs = getattr(item, "attrs", None)  # of one from outside, no referent: stores to them are effects of their own
        if attrs is not None:
            waiting.append(attrs)
    return False


def guard_address(vm: VM, obj: Object, asked: str) -> None:
    """Guard which object a value from outside is. The guard keeps alive what can't be referenced weakly, so that breaks where its end shows."""
    if not classes.weakrefoffset(obj.cls) and ends_visibly(obj):
        vm.unsupported(breaks.UnsupportedCall(f"{asked} of a {obj.type_name} whose end shows, and which can't be referenced weakly"))
    assert obj.source is not None
    vm.guard(ValueIs, obj.source, obj.value)
