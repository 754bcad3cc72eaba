"""Modules that are imported when something in them is first needed, because importing them takes long.

    sympy = when_needed("sympy")      # imports nothing
    sympy.Integer(2)                  # imports sympy

They are imported on a separate thread. Ctrl-C doesn't reach it (an interrupted import leaves packages that can't be imported again), torch's modes and hooks
of the thread that needs the module aren't in force there, and whatever a module keeps of the stack that imports it holds none of the program's frames.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import threading
from types import ModuleType
from typing import Any

from framejit.process import collector
from framejit.process.warning_filters import version_kept


class Late:
    """Stands for a module that is imported when an attribute of it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: ModuleType | None = None

    def __getattr__(self, name: str) -> Any:
        if self._module is None:
            self._module = load(self._name)
        return getattr(self._module, name)

    def __repr__(self) -> str:
        return f"<{self._name}, imported when needed>"


NAMES: set[str] = set()
"""The modules that something in framejit imports when needed."""


def when_needed(name: str) -> Any:
    """The module of this name, which is imported when an attribute of it is first asked for. No attribute may be asked for while a module is imported."""
    NAMES.add(name)
    return Late(name)


STAND_INS: dict[str, ModuleType] = {}
"""The modules in `sys.modules` that stand in for ones that haven't been imported, by name. All are removed before one of the real
modules is imported, since these import one another."""


def is_there(name: str) -> bool:
    """Return whether something is in `sys.modules` for a name, other than what framejit itself has put there for the time of a trace."""
    return name in sys.modules and (name not in STAND_INS or sys.modules[name] is not STAND_INS[name])


def is_loaded(name: str) -> bool:
    """Return whether a module has been imported, by anyone, to its end."""
    return is_there(name) and sys.modules[name] is not None and not is_being_imported(name)


def is_being_imported(name: str) -> bool:
    """Return whether the import of a module has begun and not ended."""
    return bool(getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False))


def take_away() -> None:
    """Take what stands in for modules out of `sys.modules`."""
    for name in list(STAND_INS):
        if sys.modules.get(name) is STAND_INS.pop(name, None):
            del sys.modules[name]


def load(name: str) -> ModuleType:
    """Import a module on a separate thread, and return it. Raises what the import raises.

    If its import, or that of a package that it is in, has begun and not ended, it is imported on this thread, which may be the one that waits for the end.
    """
    if is_loaded(name):
        return sys.modules[name]
    if name in STAND_INS:
        take_away()
    parts = name.split(".")
    begun = any(is_being_imported(".".join(parts[:count])) for count in range(1, len(parts) + 1))
    if not begun and not isinstance(threading.current_thread(), Loader):
        loader = Loader(name)
        loader.start()
        loader.join()
    return importlib.import_module(name)  # if the thread's import has failed, this one says why


BEING_STARTED: set[tuple[int, threading.Thread]] = set()
"""The threads that are being started, each with its process: a fork in the middle leaves some in the copy that never run."""


def is_starting_thread() -> bool:
    """Return whether a thread that imports a module is being started. Until it runs, CPython takes it for the one that starts it, and may raise exceptions
    in it that are meant for that one (PyThreadState_SetAsyncExc). Then it never runs, and the other one waits for that."""
    return any(process == os.getpid() for process, _ in list(BEING_STARTED))


class Loader(threading.Thread):
    """Imports a module, and what this needs."""

    def __init__(self, module: str) -> None:
        super().__init__(name="framejit-loader", daemon=True)
        self._module_name = module

    def start(self) -> None:
        key = os.getpid(), self
        BEING_STARTED.add(key)
        try:
            super().start()
        finally:
            BEING_STARTED.discard(key)

    def run(self) -> None:
        try:
            with version_kept(), collector.off():
                importlib.import_module(self._module_name)
        except Exception:
            logging.getLogger("framejit").debug("%s could not be loaded", self._module_name, exc_info=True)  # the caller's own import says why
