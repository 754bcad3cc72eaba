"""warnings.warn: a warning is given after the graph, for the line that it is about, unless it may become an exception, or is recorded."""

from __future__ import annotations

import sys
import warnings
from types import FunctionType
from typing import Any

from framejit import breaks
from framejit.objects.core.latercall import LaterCall
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models


def give(message: str, category: type[Warning], namespace: dict[str, Any], filename: str, line: int) -> None:
    """Run by generated code: the rest of `warnings.warn`, once the line is known (Python/_warnings.c: setup_context). `namespace`: the globals of its code,
    which record the warnings shown already."""
    registry = namespace.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, filename, line, namespace.get("__name__", "<string>"), registry)


MODULES = ("warnings", "_py_warnings")
"""The modules that define Python's own function that shows warnings: newer versions have it in the second one."""
RECORDED_IN_CONTEXTS = bool(getattr(sys.flags, "context_aware_warnings", False))
"""True if `catch_warnings` changes the context of its thread, and not the module (an option of Python 3.14 and later)."""
SHOWN_BY = (("showwarning", "_showwarning_orig"), ("formatwarning", "_formatwarning_orig"))
"""Functions of the module that a program may replace, and the names under which it keeps its own."""


def is_only_printed(vm: VM) -> bool:
    """Return whether warnings are shown by Python's own function, which prints to `sys.stderr`, and nothing in the trace has changed that or the filters."""
    namespace = vm.globals_of(vars(warnings))
    if any(map(vm.effects.is_mutated, (namespace, vm.globals_of(vars(sys))))):
        return False

    def attribute(name: str) -> Object:
        return vm.observe(namespace.lookup(vm, name) or vm.const(None))

    printer = attribute("_showwarnmsg_impl")
    its_own = printer.cls is FunctionType and printer.value.__module__ in MODULES and printer.value.__qualname__ == "_showwarnmsg_impl"
    is_pythons = all(attribute(name).value is attribute(original).value for name, original in SHOWN_BY)
    return its_own and is_pythons and not RECORDED_IN_CONTEXTS and not vm.effects.is_mutated(attribute("filters"))


def do_more_than_print() -> bool:
    """Return whether the filters turn some warnings into exceptions, or another module has taken the place of `warnings`, whose functions show them."""
    defaults: Any = warnings
    replaced = sys.modules.get("warnings") is not warnings
    return replaced or defaults.defaultaction == "error" or any(row[0] == "error" for row in warnings.filters)


def can_wait(vm: VM) -> bool:
    """Return whether a warning may be given after the graph: it would only be printed then, whatever the filters say."""
    return is_only_printed(vm) and not vm.guards.read(do_more_than_print)


@models(warnings.warn)
def warn(vm: VM, message: Object, category: Object | None = None, stacklevel: Object | None = None, source: Object | None = None) -> Object:
    """warnings.warn with a text as the message. The line must be one of the traced functions'."""
    message = vm.observe(message)
    cls = vm.observe(category).constant(vm) if category is not None else None
    level = vm.observe(stacklevel).constant(vm) if stacklevel is not None else 1
    if cls is None:
        cls = UserWarning
    is_plain = message.cls is str and type(cls) is type and issubclass(cls, Warning) and type(level) is int and source is None
    found = vm.caller(max(level, 1) - 1) if is_plain else None
    if found is None or not can_wait(vm):
        vm.unsupported(breaks.SideEffect("warnings.warn()"))
    frame, line = found
    vm.effects.in_order(LaterCall(give, (message, cls, frame.globals, frame.code.co_filename, line)))
    return vm.const(None)
