"""Finds out what compiled code holds: it may be kept only if it doesn't keep objects alive that the program itself has released."""

from __future__ import annotations

import enum
import gc
import logging
import sys
import types
from collections.abc import Iterable
from typing import Any

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensor

from framejit.guards.source import Reference, module_of_globals
from framejit.program import classes

COMPILERS = frozenset(sys.stdlib_module_names) | {
    "filelock", "framejit", "fsspec", "functorch", "jinja2", "mpmath", "networkx", "numpy", "optree", "packaging", "pybind11_builtins",
    "sympy", "torch", "torchgen", "triton", "typing_extensions",
}  # fmt: skip
"""Packages of which a compilation creates objects itself: torch, the packages that torch needs, and framejit."""
PLAIN = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.device, torch.Size, types.BuiltinFunctionType)))
"""Types whose values hold no objects, by id: a class that is looked up may have a metaclass with a `__hash__` of the program's own."""
RUNNING = (types.FrameType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, types.TracebackType)
MOST = 2_000_000
"""The most objects that are looked at. A small graph has some hundreds, a compiled backward tens of thousands."""


def survey(roots: Iterable[Any], sought: Iterable[Any], known: Iterable[Any] = (), strict: bool = True) -> set[int] | None:
    """The ids of those objects in `sought` that are reached from the roots; None if objects of the program are reached.

    Loaded modules, and objects that are found in one by name, live anyway: they don't count, and aren't searched. Objects in `known` are skipped. Without
    `strict`, the program's objects are searched like others. This runs no code of the program.
    """
    wanted = {id(value) for value in sought}
    seen = {id(value): value for value in known}
    reached: set[int] = set()
    waiting = list(roots)
    while waiting:
        value = waiting.pop()
        cls = type(value)
        if id(cls) in PLAIN or id(value) in seen:
            continue
        if len(seen) == MOST:
            return None
        seen[id(value)] = value  # held, so that no other object gets its address
        if id(value) in wanted:
            reached.add(id(value))
        elif lives_anyway(value):
            continue
        elif cls is types.CodeType:
            waiting += value.co_consts
        elif strict and is_of_program(value):
            return None
        else:
            waiting += gc.get_referents(value)
    return reached


def lives_anyway(value: Any) -> bool:
    """Return whether a value lives without being held here: a loaded module, its globals, a function or class found there by name, or a logger."""
    cls = type(value)
    if issubclass(cls, logging.Logger):
        return True
    if cls is types.ModuleType:
        return sys.modules.get(value.__dict__.get("__name__")) is value
    if cls is dict:
        return "__name__" in value and module_of_globals(value) is not None
    if issubclass(cls, type):
        if not classes.flags(value) & classes.HEAP_TYPE:
            return True
        module = sys.modules.get(module_of(value))
        return module is not None and look_up_by_name(module.__dict__, classes.qualname(value)) is value
    if cls is types.FunctionType:
        return module_of_globals(value.__globals__) is not None and look_up_by_name(value.__globals__, value.__qualname__) is value
    return False


def look_up_by_name(namespace: Any, qualname: str) -> Any:
    """The object that a qualified name has in a namespace, looked up in plain dicts; None if there is none."""
    found: Any = None
    for name in qualname.split("."):
        found = namespace.get(name) if namespace is not None else None
        namespace = classes.class_dict(found) if issubclass(type(found), type) else None
    return found.__func__ if type(found) in (staticmethod, classmethod) else found


def module_of(cls: type) -> str:
    """The name of a class's module."""
    name = classes.class_dict(cls).get("__module__")
    return name if isinstance(name, str) else ""


def is_of_program(value: Any) -> bool:
    """Return whether a value is the program's, and would be freed when the program releases it.

    A function that isn't found by name doesn't count, and is searched instead: a backend usually returns such a function.
    """
    cls = type(value)
    if cls is Reference:
        return issubclass(type(value.strong), (dict, list, set))  # by identity: one of the program's
    if issubclass(cls, type):
        return module_of(value).partition(".")[0] not in COMPILERS
    if issubclass(cls, enum.Enum):
        return not lives_anyway(cls)
    if classes.flags(cls) & classes.HEAP_TYPE and "__module__" in classes.class_dict(cls) and module_of(cls).partition(".")[0] not in COMPILERS:
        return not issubclass(cls, type)
    if issubclass(cls, torch.Tensor):
        return not issubclass(cls, FakeTensor) and (isinstance(value, nn.Parameter) or value.requires_grad)
    return issubclass(cls, RUNNING) or (issubclass(cls, nn.Module) and not (cls is nn.Module or issubclass(cls, fx.GraphModule)))
