"""Keeps the entries of a compiled function that is gone for the next `compile` of the function or of its code.

A record holds the entries of the CompiledFunction, with all that its Compiler has learnt. It is freed with the code that the entries were made for, with
an object that their guards compare with, or with a backend that the program has made. Entries that hold objects of the program are not kept at all
(holdings.py): the garbage collector couldn't see that they belong to the function.
"""

from __future__ import annotations

import functools
import sys
import threading
import types
import weakref
from dataclasses import replace
from typing import Any

from framejit._runtime import Entry
from framejit.backends.registry import Backend
from framejit.driver.holdings import lives_anyway, look_up_by_name, survey
from framejit.errors import BackendError
from framejit.guards.source import module_of_globals
from framejit.program import classes

MOST = 64
"""The most records of one code object. If a closure is made again and again, each has a record."""

_lock = threading.RLock()  # a record may end, or begin, whenever the garbage collector runs
_records: dict[int, list[RetainedEntries]] = {}


class RetainedEntries:
    """The entries of one compiled function that is gone, and its `compiler` (driver.callback.Compiler), which the next compiled function takes over."""

    def __init__(self, compiler: Any, function: types.FunctionType, entries: tuple[Entry, ...], anchors: list[Any]) -> None:
        self.compiler = compiler
        self.key = id(function.__code__)
        self.function = weakref.ref(function)
        self.bare = function.__closure__ is None
        self.entries = list(entries)
        end = functools.partial(_end, weakref.ref(self))
        self._references: list[Any] = [weakref.ref(anchor, end) for anchor in anchors]
        for entry in entries:
            gone = functools.partial(_remove, weakref.ref(self), weakref.ref(entry))
            compared = {id(guard.reference): guard.reference.weak for guard in entry.spec.guards if hasattr(guard, "reference")}
            for known in compared.values():
                value = None if known is None else known()
                if value is not None:
                    self._references.append(weakref.ref(value, gone))

    def serves(self, function: types.FunctionType, options: Any) -> bool:
        """Return whether a new compiled function of this function may take over the entries.

        Two functions with the same code and without cells are the same. With cells, they may still share entries.
        """
        before = self.function()
        alike = before is function or (before is None and self.bare and function.__closure__ is None and options.shareable)
        return alike and self.compiler.may_serve(function, options)


def retain(compiler: Any, function: types.FunctionType, entries: tuple[Entry, ...]) -> None:
    """Keep the `entries` of a compiled function that is gone, if that is possible."""
    entries = tuple(entry for entry in entries if entry.tree.alive)
    if sys.is_finalizing() or not any(is_own(entry) for entry in entries):
        return
    backend, compiler.held_backend = compiler.held_backend, None
    candidates = anchors_of(function)
    if compiler.surveyed is None or compiler.surveyed[0] != compiler.compilations:
        compiler.surveyed = (compiler.compilations, choose(candidates, [*entries, compiler], backend))
    chosen = compiler.surveyed[1]
    if chosen is None or candidates[chosen] is None:
        return
    anchors = [candidates[chosen]] if backend is None else [candidates[chosen], backend]
    record = RetainedEntries(compiler, function, entries, anchors)
    with _lock:
        known = _records.get(record.key, [])
        _records[record.key] = [record, *known[: MOST - 1]]


def is_own(entry: Entry) -> bool:
    """Return whether an entry was made for its own function, and not from another function's entry."""
    return entry.spec is not None and not entry.spec.origin.adopted


def anchors_of(function: types.FunctionType) -> list[Any]:
    """The objects with which a record may be freed, the best first: the function's code; then, since resume functions hold that, the function of a loaded
    module in which the code is, or else the function itself.
    """
    return [function.__code__, outermost(function), function]


def choose(candidates: list[Any], roots: list[Any], backend: Any) -> int | None:
    """The number of the first candidate that isn't reached from the roots; None if the roots must not be kept."""
    sought = [candidate for candidate in (*candidates, backend) if candidate is not None]
    reached = survey(roots, sought)
    if reached is None or (backend is not None and id(backend) in reached):
        return None
    return next((n for n, candidate in enumerate(candidates) if candidate is not None and id(candidate) not in reached), None)


def outermost(function: types.FunctionType) -> types.FunctionType | None:
    """The function of a loaded module, or of a class there, whose code contains the function's code; None if there is none."""
    if module_of_globals(function.__globals__) is None:
        return None
    found = look_up_by_name(function.__globals__, function.__qualname__.partition(".<locals>")[0])
    return found if type(found) is types.FunctionType and contains(found.__code__, function.__code__) else None


def contains(outer: types.CodeType, inner: types.CodeType) -> bool:
    """Return whether `inner` is the code `outer`, or is somewhere among its constants."""
    return outer is inner or any(contains(value, inner) for value in outer.co_consts if type(value) is types.CodeType)


def take(function: types.FunctionType, options: Any) -> RetainedEntries | None:
    """Remove and return a record with which a new compiled function can begin; None if there is none."""
    with _lock:
        known = _records.get(id(function.__code__), [])
        record = next((record for record in known if record.serves(function, options)), None)
        if record is not None:
            known.remove(record)
            record._references.clear()
        return record


def clear() -> None:
    """Drop all records: part of `reset()`."""
    with _lock:
        _records.clear()


def _end(reference: weakref.ref[RetainedEntries], gone: Any) -> None:
    """Drop a record, since an object with which it is freed is gone."""
    record = reference()
    if record is not None:
        with _lock:
            known = [other for other in _records.get(record.key, []) if other is not record]
            if known:
                _records[record.key] = known
            else:
                _records.pop(record.key, None)


def _remove(reference: weakref.ref[RetainedEntries], gone_entry: weakref.ref[Entry], gone: Any) -> None:
    """Drop an entry, since an object that its guards compare with is gone, so that it will never match again."""
    record, entry = reference(), gone_entry()
    if record is not None and entry in record.entries:
        record.entries.remove(entry)
        if not record.entries:
            _end(reference, gone)


# Backends that the program has made.


class WeakBackend:
    """A weak reference to a backend's function, since entries that were compiled with it may live longer."""

    def __init__(self, function: Any) -> None:
        self.function = weakref.ref(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = self.function()
        if function is None:
            raise BackendError("of a compiled function", "is gone")
        return function(*args, **kwargs)


def weakly(backend: Backend) -> tuple[Backend, Any]:
    """The backend with a weak reference to its function, and the function itself, which a compiler holds while it is in use (None for built-in backends)."""
    call = backend.call
    if isinstance(call, (WeakBackend, types.MethodType)) or not type(call).__weakrefoffset__ or lives_anyway(call):
        return backend, None
    if type(call) is not types.FunctionType and not classes.flags(type(call)) & classes.HEAP_TYPE:
        return backend, None
    return replace(backend, call=WeakBackend(call)), call


def function_of(backend: Backend) -> Any:
    """The function of a backend, also if the backend has only a weak reference to it."""
    return backend.call.function() if isinstance(backend.call, WeakBackend) else backend.call


def strongly(backend: Backend) -> Backend:
    """The backend as `compile` takes it, with a strong reference to its function."""
    return replace(backend, call=function_of(backend))
