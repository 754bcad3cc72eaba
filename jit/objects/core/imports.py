"""Import statements (Python/import.c): the trace handles modules that are already imported; everything else is left to the instruction itself, at a break.

Importing runs the module's code and the program's import hooks, so it is never done while tracing. The entry of such a break is guarded by the
module's absence from `sys.modules`: once it is there, the next call is compiled without the break.

torch's own modules are imported while tracing, on another thread. framejit and torch import many of them when something first needs them, and it must make no
difference to the program which ones these have been.
"""

from __future__ import annotations

import builtins
import contextlib
import sys
import types
from types import BuiltinFunctionType, ModuleType
from typing import Any, NoReturn

import torch

from framejit import breaks
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Namespace, Object
from framejit.process.when_needed import is_loaded, is_there, load

LAZY: frozenset[str] = frozenset(getattr(torch, "_lazy_modules", ()))
"""The modules that torch imports when they are asked for as its attributes."""
WAITING: type | None = getattr(types, "LazyImportType", None)
"""The type of what stands for a module, or for a name in one, until a lazy import is done."""


def is_own_import(function: Any) -> bool:
    """Return whether this is the interpreter's own `__import__`, which import statements don't call."""
    return type(function) is BuiltinFunctionType and function.__self__ is builtins and function.__name__ == "__import__"


def import_name(vm: VM, namespace: Object, builtin_names: Namespace, name: str, fromlist: Object, level: Object) -> Object:
    """IMPORT_NAME (Python/ceval.c: import_name): the program may have replaced `__import__`."""
    function = builtin_names.lookup(vm, "__import__")
    if function is None:
        vm.raise_(ImportError, "__import__ not found")
    function = vm.observe(function)
    if not is_own_import(function.value):
        vm.unsupported(breaks.UnsupportedCall(f"{function.name_when_called}, put in the place of __import__ by the program,"))
    return import_module(vm, namespace, name, vm.observe(fromlist).constant(vm), vm.observe(level).constant(vm))


def import_module(vm: VM, namespace: Object | None, name: str, fromlist: Any, level: int) -> Object:
    """PyImport_ImportModuleLevelObject. `namespace`: the globals of the importing module, for relative imports."""
    full = absolute_name(vm, namespace, name, level) if level else name
    module = loaded(vm, full)
    if not fromlist:
        if not name.partition(".")[2]:
            return module
        return loaded(vm, full.partition(".")[0] if not level else full[: len(full) - len(name)] + name.partition(".")[0])
    if abstract.lookup_attr(vm, module, "__path__") is not None:
        import_submodules(vm, module, fromlist)
    return module


def import_submodules(vm: VM, package: Object, names: Any) -> None:
    """importlib._bootstrap._handle_fromlist: names that aren't attributes of the package are imported as submodules."""
    for name in names:
        if type(name) is not str or name == "*":
            not_traced(vm, f"the names {names!r} out of a package")
        if type(package.value) is ModuleType and name not in vars(package.value):
            bring(f"{package.value.__name__}.{name}")
        if abstract.lookup_attr(vm, package, name) is None:
            prefix = vm.observe(abstract.getattr_(vm, package, "__name__")).constant(vm)
            if not isinstance(prefix, str):
                not_traced(vm, f"{name} out of a package without a name")
            vm.guards.read(is_there, f"{prefix}.{name}")
            not_traced(vm, f"{prefix}.{name}, which is not imported yet")


def imported(vm: VM, name: str, found: Object | None) -> Object | None:
    """The value of a name in a module, or None. A lazy import (PEP 810) is done by the instruction that looks it up."""
    if WAITING is not None and found is not None and vm.observe(found).cls is WAITING:
        not_traced(vm, f"{name}, whose import is lazy")
    return found


def bring(name: str) -> None:
    """Import a module, if it is one of torch's. If that fails, the program's own instruction says why."""
    if name.startswith("torch.") and not is_loaded(name):
        with contextlib.suppress(Exception):
            load(name)


def bring_attribute(module: ModuleType, name: str) -> None:
    """Import the module that an attribute of torch is, if torch imports it when it is first asked for."""
    if module is torch and name in LAZY and name not in vars(torch):
        bring(f"torch.{name}")


def absolute_name(vm: VM, namespace: Object | None, name: str, level: int) -> str:
    """resolve_name (Python/import.c), for modules whose `__package__` is set as usual; for others, the instruction itself raises the error."""
    package: Any = None
    if isinstance(namespace, Namespace):
        found = namespace.lookup(vm, "__package__")
        package = None if found is None else vm.observe(found).constant(vm)
        spec = namespace.lookup(vm, "__spec__")
        if spec is not None and getattr(vm.observe(spec).value, "parent", package) != package:
            package = None  # CPython warns about it
    if type(package) is not str or not package or package.count(".") < level - 1:
        not_traced(vm, f"{'.' * level}{name} in a module that is not told which package it is of")
    base = package.rsplit(".", level - 1)[0]
    return f"{base}.{name}" if name else base


def loaded(vm: VM, name: str) -> Object:
    """The module of that name in `sys.modules`."""
    bring(name)
    modules = vm.globals_of(sys.modules)
    found = modules.lookup(vm, name) if is_there(name) else None
    if found is None:
        vm.guards.read(is_there, name)
        if name.partition(".")[0] in breaks.Debugger.packages:  # it usually comes right before its call
            vm.unsupported(breaks.Debugger(f"import of {name}"))
        not_traced(vm, f"{name}, which is not imported yet")
    module = vm.observe(found)
    real = module.value
    if not isinstance(real, ModuleType) or getattr(vars(real).get("__spec__"), "_initializing", False):
        not_traced(vm, f"{name}, which is no module that has been imported to its end")
    return module


def not_traced(vm: VM, what: str) -> NoReturn:
    vm.unsupported(breaks.NotImported(what))


def import_from(vm: VM, module: Object, name: str) -> Object:
    """IMPORT_FROM: the attribute; otherwise the instruction itself looks in `sys.modules`, or raises the error."""
    found = abstract.lookup_attr(vm, module, name)
    if found is None:
        vm.unsupported(breaks.NotImported(f"{name}, which the module has no attribute for"))
    return found
