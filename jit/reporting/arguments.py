"""Names for the arguments of a call that goes through a wrapper: reports say `x`, as a module's `forward` does, and not `args[0]`, as its wrapper does."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import FunctionType, MethodType
from typing import Any

from torch import nn

from framejit.guards.source import Call, CellContents, ClosureCell, FrameFunction, Index, Item, Local, Path, Slot, typed_key
from framejit.program import classes
from framejit.program.code_kinds import HIDDEN, MODULE_CALLS, OURS


def names(call: Call, module: nn.Module | None) -> dict[Path, str]:
    """The names of the values in a wrapper's `*args` and `**kwargs`, by path. The dict is empty if the called function is the program's own."""
    code = call.function.__code__
    if not code.co_filename.startswith(HIDDEN):
        return {}
    runs_module = module is not None and code.co_filename == MODULE_CALLS
    target, first = forward_of(module) if runs_module else (call.function, code.co_argcount)
    target, first = wrapped(target, first)
    found = {} if target is None or target is call.function else dict(named(call, target, first))
    return found | dict(bound(call.function, target))


def bound(function: FunctionType, target: FunctionType | None) -> Iterator[tuple[Path, str]]:
    """The path and the name (usually `self`) of a callable object that was compiled, which framejit's wrapper reaches through its closure."""
    free = function.__code__.co_freevars
    if function.__code__.co_filename.startswith(OURS) and "target" in free and target is not None and target.__code__.co_name == "__call__":
        cell: Path = ((FrameFunction, None), (ClosureCell, Slot(free.index("target"), "target")), (CellContents, None))
        yield cell, target.__code__.co_varnames[0]


def forward_of(module: Any) -> tuple[Any, int]:
    """The `forward` that a module's calls run, and the index of its parameter that gets the first argument: 1 for a method, which has `self`."""
    own = object.__getattribute__(module, "__dict__").get("forward")
    return (classes.lookup(type(module), "forward"), 1) if own is None else (own, 0)


def wrapped(target: Any, first: int) -> tuple[FunctionType | None, int]:
    """The innermost function that a callable wraps, or None if the callable is in C; and the index of its parameter that gets the first argument."""
    found: tuple[FunctionType | None, int] = None, first
    seen: set[int] = set()
    while id(target) not in seen:  # a program may set `__wrapped__` to anything, the function itself included
        seen.add(id(target))
        if type(target) is MethodType:
            target, first = target.__func__, first + 1
        elif type(target) is functools.partial:
            target, first = target.func, first + len(target.args)
        elif type(target) is FunctionType:
            found = target, first
            target = target.__dict__.get("__wrapped__")
        elif target is not None:
            caller = classes.lookup(type(target), "__call__")
            return (caller, first + 1) if type(caller) is FunctionType else found
        else:
            break
    return found


def named(call: Call, target: FunctionType, first: int) -> Iterator[tuple[Path, str]]:
    """The path of each item of `*args` and `**kwargs`, and the name of the parameter of `target` that gets it. Parameter `first` gets the first of `*args`."""
    code, inner = call.function.__code__, target.__code__
    parameters = inner.co_varnames[: inner.co_argcount + inner.co_kwonlyargcount]
    slot = code.co_argcount + code.co_kwonlyargcount
    if code.co_flags & CO_VARARGS:
        path: Path = ((Local, Slot(slot, code.co_varnames[slot])),)
        for index in range(len(call.locals[slot])):
            if first + index < inner.co_argcount:
                yield (*path, (Index, index)), parameters[first + index]
            elif inner.co_flags & CO_VARARGS:
                yield (*path, (Index, index)), f"{inner.co_varnames[len(parameters)]}[{first + index - inner.co_argcount}]"
        slot += 1
    if code.co_flags & CO_VARKEYWORDS:
        path = ((Local, Slot(slot, code.co_varnames[slot])),)
        yield from ((((*path, (Item, typed_key(name)))), name) for name in call.locals[slot] if type(name) is str and name in parameters)
