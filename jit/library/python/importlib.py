"""importlib.import_module and `__import__` as functions, for modules that are already imported; and whether a module can be found."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
from typing import Any

from framejit import breaks
from framejit.objects.core import abstract, imports
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models


@models(importlib.import_module)
def import_module(vm: VM, name: Object, package: Object | None = None) -> Object:
    """importlib.import_module. Without a package, the name is absolute; relative names are left to the function itself."""
    full: Any = vm.observe(name).constant(vm)
    if type(full) is not str or not full or full.startswith("."):
        vm.unsupported(breaks.NotImported(f"{full!r} by importlib.import_module"))
    return imports.loaded(vm, full)


@models(builtins.__import__)
def import_(
    vm: VM, name: Object, globals: Object | None = None, locals: Object | None = None, fromlist: Object | None = None, level: Object | None = None
) -> Object:
    """`__import__`. Relative imports depend on the globals that the program passes, and are left to the function itself."""
    full: Any = vm.observe(name).constant(vm)
    names: list[Any] = []
    if fromlist is not None and vm.observe(fromlist).cls is not type(None):
        names = [vm.observe(item).constant(vm) for item in abstract.iterate(vm, fromlist)]
    depth: Any = 0 if level is None else vm.observe(level).constant(vm)
    if type(full) is not str or not full or depth != 0:
        vm.unsupported(breaks.NotImported(f"{full!r} by __import__"))
    return imports.import_module(vm, None, full, names, 0)


def cannot_be_found(name: str) -> bool:
    """Return whether a top-level module isn't imported, and isn't installed either."""
    return name not in sys.modules and importlib.util.find_spec(name) is None


@models(importlib.util.find_spec)
def find_spec(vm: VM, name: Object, package: Object | None = None) -> Object:
    """For a module that can't be found, a guard asks again in each call. One that is found but not imported breaks the graph: each call gives a new object."""
    full: Any = vm.observe(name).constant(vm)
    if type(full) is not str or not full or "." in full:
        vm.unsupported(breaks.UnsupportedCall("importlib.util.find_spec of a name with dots"))
    if full in sys.modules:
        return abstract.getattr_(vm, imports.loaded(vm, full), "__spec__")
    if not vm.guards.read(cannot_be_found, full):
        vm.unsupported(breaks.UnsupportedCall("importlib.util.find_spec of a module that isn't imported yet"))
    return vm.const(None)
