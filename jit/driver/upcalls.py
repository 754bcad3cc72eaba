"""Decides which upcalls are compiled. An upcall is a call of a Python function by native code that runs at a graph break, as `sort` calls its key.

The user's functions are compiled if they work on tensors.

`kind_of` gives the part of the answer that never changes for a function, and `reaches_tensors` looks at one call. A function that native code calls
thousands of times without tensors must cost neither a compilation nor a long search.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch import nn

from framejit._runtime import NEVER, OPAQUE
from framejit.driver import tensorless
from framejit.program import classes
from framejit.program.code_kinds import CALLS_BACK, GENERATED_BY_COMPILERS, OUR_WRAPPERS, OURS, TORCH, CodeKind
from framejit.program.code_kinds import kind_of as kind_of_code
from framejit.said import directives

HANDLERS = frozenset({"__torch_function__", "__torch_dispatch__"})
"""Names of methods that torch's dispatcher calls. While they run, the dispatcher is in a special state."""
FEW = 8
"""The most items of a container, and attributes of an object, that are looked at."""
MOST = 256
"""The most functions that are compiled for the upcalls of one compiled function, so that code which a program generates as it runs doesn't pile up."""


class Upcalls:
    """Decides how functions run that native code calls at the graph breaks of a compiled function, and at the breaks of those functions.

    A compiled function and all functions compiled because of it share one object. `compile` makes a CompiledFunction of a function. `compile_beyond` does so
    for a function that is called by a frame which a limit forbids to compile; it is None if the object is only for such functions.
    """

    def __init__(self, compile: Callable[[FunctionType, Upcalls], Any], compile_beyond: Callable[[FunctionType, Upcalls], Any] | None = None) -> None:
        self.compile = compile
        self._compile_beyond = compile_beyond
        self._beyond: Upcalls | None = None
        self._passed_over: set[CodeType] = set()
        """The code of functions that have reached a limit, so that they aren't compiled any more."""
        self.compiled: dict[Any, int] = {}
        """The CompiledFunctions that `compile` has made, and for each, how often its entries had run when there was last no room for more."""
        self.refused = 0

    def beyond_limits(self, code: CodeType) -> Upcalls:
        """The Upcalls object for functions that a frame of this code calls, after the code was compiled as often as a limit allows."""
        if self._compile_beyond is None:
            found = self
        else:
            found = self._beyond = self._beyond or Upcalls(self._compile_beyond)
        found._passed_over.add(code)
        return found

    def __call__(self, function: FunctionType, args: tuple[Any, ...]) -> Any:
        """Return how a function runs: as a CompiledFunction, which serves all functions of its code; NEVER or OPAQUE (see `kind_of`); or None if it
        runs uncompiled this time."""
        kind = kind_of(function)
        if kind is not None:
            return kind
        if not reaches_tensors(function, args) or is_tensorless(function, args) or not self._has_room():
            return None
        # Neither the cells nor the defaults of this one must be kept.
        cells = tuple(CellType() for _ in function.__code__.co_freevars)
        stand_in = FunctionType(function.__code__, function.__globals__, function.__name__, None, cells)
        stand_in.__qualname__ = function.__qualname__
        compiled = self.compile(stand_in, self)
        compiled.enabled = function.__code__ not in self._passed_over
        self.compiled[compiled] = 0
        return compiled

    def _has_room(self) -> bool:
        """Return whether there is room for one more CompiledFunction. From time to time, those that haven't run for long are dropped to make room."""
        if len(self.compiled) >= MOST:
            self.refused += 1
            if self.refused < MOST:
                return False
            self.refused = 0
            known = self.compiled.copy()  # another thread may be at it too
            used = {compiled: sum(entry.hits for entry in compiled.entries) for compiled in known}
            self.compiled = {compiled: hits for compiled, hits in used.items() if hits > known[compiled]}
        return len(self.compiled) < MOST


MOST_IDLE = 3
"""After so many traces without a tensor operation, a function that native code calls always runs uncompiled."""


class UpcallUse:
    """Notes whether it paid to compile a function that native code calls."""

    def __init__(self) -> None:
        self.graphs = 0
        self.idle = 0
        """The number of traces that reached the function's end without a graph."""

    def note(self, graph: bool, ends: bool) -> None:
        """Note the result of a trace."""
        self.graphs += graph
        self.idle += ends and not graph

    def is_idle(self) -> bool:
        """Return whether so many traces had no tensor operation that the function isn't compiled any more."""
        return self.idle >= MOST_IDLE and not self.graphs

    def forget(self) -> None:
        """Forget everything: part of `reset()`."""
        self.graphs = self.idle = 0


def kind_of(function: FunctionType) -> int | None:
    """NEVER if calls of a function are not compiled, OPAQUE if everything that they call isn't compiled either, None if it may pay to compile it."""
    code = function.__code__
    filename = code.co_filename
    if filename.startswith(TORCH):
        return NEVER if filename.startswith(CALLS_BACK) else OPAQUE
    if filename.startswith(OURS):
        return NEVER if filename.startswith(OUR_WRAPPERS) else OPAQUE
    if code.co_name in HANDLERS:
        return OPAQUE
    if filename.startswith(GENERATED_BY_COMPILERS) or directives.is_disabled(function):
        return NEVER
    return NEVER if kind_of_code(code, function.__globals__) in (CodeKind.MACHINERY, CodeKind.WRAPPER) else None


def reaches_tensors(function: FunctionType, args: tuple[Any, ...]) -> bool:
    """Return whether a call can reach tensors, modules or torch's functions through its arguments, cells and globals. This runs no user code."""
    if any(type(arg) is re.Match for arg in args):
        return False
    return any(holds_tensor(arg, 3) for arg in args) or any(map(is_of_torch, named(function)))


def is_tensorless(function: FunctionType, args: tuple[Any, ...]) -> bool:
    """Return whether a call computes no tensors although it can reach some, like a method that reads only numbers of its module."""
    code = function.__code__
    held = dict(zip(code.co_varnames, args))
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        with contextlib.suppress(ValueError):
            held[name] = cell.cell_contents
    owners = {name: value for name, value in held.items() if not tensorless.is_plain(value)}
    return len(args) <= code.co_argcount and tensorless.is_tensorless_code(code, function.__globals__, owners)


def named(function: FunctionType) -> Iterator[Any]:
    """The values of a function's cells, and of the globals that its code names."""
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # an empty one
            yield cell.cell_contents
    namespace = function.__globals__
    for name in function.__code__.co_names:
        if name in namespace:
            yield namespace[name]


def is_of_torch(value: Any) -> bool:
    """Return whether a value is a tensor or module, holds one within a few steps, or is defined by torch itself."""
    cls = type(value)
    if cls is ModuleType or cls is BuiltinFunctionType or cls is FunctionType:
        name = value.__name__ if cls is ModuleType else value.__module__
    elif issubclass(cls, type):
        name = classes.module(value)
    else:
        return holds_tensor(value, 2)
    return isinstance(name, str) and (name == "torch" or name.startswith("torch."))


def holds_tensor(value: Any, steps: int) -> bool:
    """Return whether a value is a tensor or a module, or holds one within a few steps."""
    cls = type(value)
    if issubclass(cls, (torch.Tensor, nn.Module)):
        return True
    if not steps or issubclass(cls, type) or cls is FunctionType or cls is ModuleType:
        return False
    parts: Any
    if issubclass(cls, list):
        parts = list.__getitem__(value, slice(FEW))
    elif issubclass(cls, tuple):
        parts = tuple.__getitem__(value, slice(FEW))
    elif issubclass(cls, dict):
        parts = few_values(value)
    elif classes.dictoffset(cls):
        try:
            parts = few_values(object.__getattribute__(value, "__dict__"))
        except AttributeError:
            return False
    else:
        return False
    return any(holds_tensor(part, steps - 1) for part in parts)


def few_values(found: dict[Any, Any]) -> list[Any]:
    """The first values of a dict."""
    return [value for _, value in zip(range(FEW), dict.values(found))]
