"""Which compiled functions share entries: those of one code object, compiled with the same options; and the modules of one class."""

from __future__ import annotations

import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

from framejit._runtime import CompiledFunction, Entry
from framejit.guards.source import Reference

TRIES = 64
"""Entries of other functions that a call without an entry of its own is tried on, the newest first."""

_lock = threading.Lock()
_pools: dict[int, list[weakref.ref[Pool]]] = {}
_fronts: dict[int, list[Front]] = {}


class Pool:
    """The entries made for functions of one code object, one namespace and the same options: closures made in a loop, bound methods.

    An entry says by its guards which calls it fits, and closure cells, defaults and `self` are part of the call. It lives as long as one of
    the functions has it.
    """

    def __init__(self, function: Any, options: Any) -> None:
        self.code = function.__code__
        self.globals = function.__globals__
        self.builtins = function.__builtins__
        self.options = options
        self._entries: list[weakref.ref[Entry]] = []

    def serves(self, function: Any, options: Any) -> bool:
        """Whether nothing but guarded facts tells a call of the function from calls that the entries were made for."""
        return (
            function.__code__ is self.code
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
        """Those alive, the newest first."""
        with _lock:
            found = [known() for known in reversed(self._entries)]
        return [entry for entry in found if entry is not None]

    def find(self, function: types.FunctionType, args: tuple[Any, ...], own: tuple[Entry, ...]) -> Entry | None:
        """An entry that matches the call and is none of its `own`."""
        others = [entry for entry in self.entries() if entry not in own][:TRIES]
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
        known.append(weakref.ref(pool, lambda gone, key=id(pool.code): _forget_pool(key, gone)))  # type: ignore[misc]
        return pool


def _forget_pool(key: int, gone: weakref.ref[Pool]) -> None:
    known = _pools.get(key)
    if known is not None:
        if gone in known:
            known.remove(gone)
        if not known:
            _pools.pop(key, None)


class Front:
    """What the compiled modules of one class share: the subclass that they are objects of, with its `__call__`. It goes with the last one.

    The subclass is held only until there is an object of it, so that the two are garbage together.
    """

    def __init__(self, cls: type, raw: Any, options: Any, subclass: type) -> None:
        self.key = id(cls)
        self._raw = Reference(raw)
        self.options = options
        self._subclass = weakref.ref(subclass)
        self._held: type | None = subclass
        self.instances: set[weakref.ref[Any]] = set()

    @property
    def subclass(self) -> Any:
        return self._subclass()

    @property
    def cls(self) -> Any:
        return self.subclass.__mro__[1]

    @property
    def raw(self) -> Any:
        """What calls of the modules run as written."""
        return self._raw.get()

    def claim(self, raw: Any, options: Any) -> bool:
        """Whether it is there, made of that and for these options; if so, it is held until one more object has been added."""
        subclass = self.subclass
        if subclass is None or self.raw is not raw or not options.same_as(self.options):
            return False
        self._held = subclass
        return True

    def add(self, instance: Any) -> None:
        """One more object of the subclass."""
        self.instances.add(weakref.ref(instance, self._remove))
        self._held = None

    def _remove(self, gone: weakref.ref[Any]) -> None:
        self.instances.discard(gone)
        if not self.instances:
            known = _fronts.get(self.key, [])
            if self in known:
                known.remove(self)
            if not known:
                _fronts.pop(self.key, None)
            subclass = self.subclass
            call = None if subclass is None else subclass.__dict__["__call__"]
            if isinstance(call, CompiledFunction):
                call.clear()


def shared_class(cls: type, raw: Any, options: Any, make: Callable[[], type]) -> Front:
    """The front of a module class whose calls run `raw`, for these options."""
    with _lock:
        for front in _fronts.get(id(cls), []):
            if front.claim(raw, options):
                return front
    front = Front(cls, raw, options, make())
    with _lock:
        _fronts.setdefault(id(cls), []).append(front)
    return front


_followed: dict[int, Following] = {}
TAKE_OVER = "__framejit_take_over__"
"""The attribute of a compiled module's class that is called with the compiled module and the one that it was made of."""


class Following:
    """A compiled module and the module that it shares its state with, whose class may be changed: parametrizations and the like do so."""

    def __init__(self, made: Any, module: Any) -> None:
        self.made = weakref.ref(made, lambda gone, key=id(made): _followed.pop(key, None))  # type: ignore[misc]
        self.module = weakref.ref(module)
        self.cls = weakref.ref(type(module))


def follow(made: Any, module: Any) -> None:
    """From here on `catch_up(made)` lets it take over the module's class where that has become another one."""
    _followed[id(made)] = Following(made, module)


def catch_up(made: Any) -> bool:
    """Whether a compiled module has had to take over another class."""
    following = _followed.get(id(made))
    module = None if following is None or following.made() is not made else following.module()
    if following is None or module is None or type(module) is following.cls():
        return False
    getattr(type(made), TAKE_OVER)(made, module)
    following.cls = weakref.ref(type(module))
    return True
