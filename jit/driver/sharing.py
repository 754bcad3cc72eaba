"""Which compiled functions share entries: those of one code object, compiled with the same options."""

from __future__ import annotations

import threading
import types
import weakref
from typing import Any

from framejit._runtime import Entry
from framejit.torch_function_stack import in_force

TRIES = 64
"""Entries of other functions that a call without an entry of its own is tried on, the newest first."""

_lock = threading.Lock()
_pools: dict[int, list[weakref.ref[Pool]]] = {}


class Pool:
    """The entries made for functions of one code object, one namespace and the same options: closures made in a loop, bound methods.

    An entry says by its guards which calls it fits, and closure cells, defaults and `self` are part of the call. It lives as long as one of
    the functions has it, or a record of one that is gone (retained.py).
    """

    def __init__(self, function: Any, options: Any) -> None:
        self.code = weakref.ref(function.__code__)
        self.key = id(function.__code__)
        self.globals = function.__globals__
        self.builtins = function.__builtins__
        self.options = options
        self._entries: list[weakref.ref[Entry]] = []

    def serves(self, function: Any, options: Any) -> bool:
        """Whether nothing but guarded facts tells a call of the function from calls that the entries were made for."""
        return (
            function.__code__ is self.code()
            and function.__globals__ is self.globals
            and function.__builtins__ is self.builtins
            and options.same_as(self.options)
        )

    def add(self, entry: Entry) -> None:
        """An entry was made."""
        with _lock:
            self._entries = [known for known in self._entries if known() is not None]
            self._entries.append(weakref.ref(entry))

    def entries(self) -> list[Entry]:
        """The entries that are alive, the newest first."""
        with _lock:
            found = [known() for known in reversed(self._entries)]
        return [entry for entry in found if entry is not None]

    def find(self, function: types.FunctionType, args: tuple[Any, ...], own: tuple[Entry, ...]) -> Entry | None:
        """An entry that matches the call and is none of its `own`."""
        others = [entry for entry in self.entries() if entry not in own][:TRIES]
        with in_force():
            return next((entry for entry in others if entry.tree.match(args, function) is not None), None)


def pool_of(function: types.FunctionType, options: Any) -> Pool:
    """The pool of a function's code object. It lives as long as somebody holds it."""
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
