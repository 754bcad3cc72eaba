"""Lets compiled functions share entries if they have the same code object and were compiled with the same options."""

from __future__ import annotations

import threading
import types
import weakref
from typing import Any

from framejit._runtime import Entry
from framejit.torch_state.torch_function_stack import in_force

TRIES = 64
"""The most entries of other functions that are tried for a call, the newest first."""

_lock = threading.Lock()
_pools: dict[int, list[weakref.ref[Pool]]] = {}


class Pool:
    """The entries of all functions with one code object, one namespace and the same options, such as closures made in a loop, or bound methods.

    An entry's guards decide which calls it fits, and closure cells, defaults and `self` are part of the call. An entry lives as long as one of the functions
    has it, or the record of a function that is gone (retained.py).
    """

    def __init__(self, function: Any, options: Any) -> None:
        self.code = weakref.ref(function.__code__)
        self.key = id(function.__code__)
        self.globals = function.__globals__
        self.builtins = function.__builtins__
        self.options = options
        self._entries: list[weakref.ref[Entry]] = []

    def serves(self, function: Any, options: Any) -> bool:
        """Return whether calls of a function differ from the calls that the entries were made for only in facts that are guarded."""
        return (
            function.__code__ is self.code()
            and function.__globals__ is self.globals
            and function.__builtins__ is self.builtins
            and options.same_as(self.options)
        )

    def add(self, entry: Entry) -> None:
        """Add a new entry."""
        with _lock:
            self._entries = [known for known in self._entries if known() is not None]
            self._entries.append(weakref.ref(entry))

    def entries(self) -> list[Entry]:
        """The entries that still exist, the newest first."""
        with _lock:
            found = [known() for known in reversed(self._entries)]
        return [entry for entry in found if entry is not None]

    def find(self, function: types.FunctionType, args: tuple[Any, ...], own: tuple[Entry, ...]) -> Entry | None:
        """An entry that matches the call, other than the function's `own` entries."""
        others = [entry for entry in self.entries() if entry not in own][:TRIES]
        with in_force():
            return next((entry for entry in others if entry.tree.match(args, function) is not None), None)


def pool_of(function: types.FunctionType, options: Any) -> Pool:
    """The pool of a function's code object for these options. It lives as long as something refers to it."""
    with _lock:
        known = _pools.setdefault(id(function.__code__), [])
        for reference in known:
            pool = reference()
            if pool is not None and pool.serves(function, options):
                return pool
        pool = Pool(function, options)
        known.append(weakref.ref(pool, lambda gone, key=pool.key: _forget_pool(key, gone)))  # type: ignore[misc]
        return pool


def _forget_pool(key: int, gone: weakref.ref[Pool]) -> None:
    known = _pools.get(key)
    if known is not None:
        if gone in known:
            known.remove(gone)
        if not known:
            _pools.pop(key, None)
