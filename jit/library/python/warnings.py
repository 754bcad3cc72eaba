"""warnings.warn, by filters that the trace knows if it has changed them: ignored, raised, or given after the graph, for the line that it is about."""

from __future__ import annotations

import _warnings
import re
import sys
import warnings
from types import CodeType, FunctionType
from typing import Any

from framejit import breaks
from framejit.graph.running import RunningTrace
from framejit.objects.core import abstract
from framejit.objects.core.latercall import LaterCall
from framejit.objects.core.object import VM, Codegen, Object, Raise
from framejit.objects.core.registry import models
from framejit.objects.types.dictobject import DictObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.process.warning_filters import MUTATED, forget_shown
from framejit.quick_dataclass import dataclass

Row = tuple[Any, ...]
"""A filter: its action, the pattern of messages, the category, the pattern of modules and the line."""


def give(message: str, category: type[Warning], namespace: dict[str, Any], filename: str, line: int) -> None:
    """Run by generated code: the rest of `warnings.warn`, once the line is known (Python/_warnings.c: setup_context). `namespace`: the globals of its code,
    which record the warnings shown already."""
    registry = namespace.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, filename, line, namespace.get("__name__", "<string>"), registry)


mutated: Any = getattr(_warnings, MUTATED)
"""The function in C that `warnings` calls after each change of the filters. While framejit is loaded, another stands in its place there."""
LOCKING: tuple[Any, ...] = tuple(getattr(_warnings, name) for name in ("_acquire_lock", "_release_lock") if hasattr(_warnings, name))
"""The functions in C by which newer versions hold a lock while they change the filters. The trace only notes changes, which are made without it."""
MODULES = ("warnings", "_py_warnings")
"""The modules that define Python's own function that shows warnings: newer versions have it in the second one."""
RECORDED_IN_CONTEXTS = bool(getattr(sys.flags, "context_aware_warnings", False))
"""True if `catch_warnings` changes the context of its thread, and not the module (an option of Python 3.14 and later)."""
SHOWN_BY = (("showwarning", "_showwarning_orig"), ("formatwarning", "_formatwarning_orig"))
"""Functions of the module that a program may replace, and the names under which it keeps its own."""


RESTORED = ("filters", "showwarning", "_showwarnmsg_impl")
"""The names in the module that `catch_warnings` sets, and sets back."""


def is_restored(vm: VM) -> bool:
    """Return whether the module has its own values where the trace has set some: all blocks of `catch_warnings` have ended."""
    namespace = vm.globals_of(vars(warnings))
    if not vm.effects.is_mutated(namespace):
        return True
    own, stored = vars(warnings), namespace.stores
    return isinstance(namespace, DictObject) and not namespace.removed and all(
        name in RESTORED and vm.observe(found).value is own[name] for name, (_, found) in stored.items()
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class WarningAfterBlock(LaterCall):
    """A warning that comes after a block of `catch_warnings`, and is given once the module has its own values back. If the trace ends inside another block,
    it is left to the program's own call."""

    vm: VM
    place: tuple[CodeType, int]

    def replay(self, cg: Codegen) -> None:
        if not is_restored(self.vm):
            self.vm.restart(self.place, breaks.SideEffect("warnings.warn()"))
        LaterCall.replay(self, cg)


def is_only_printed(vm: VM) -> bool:
    """Return whether warnings are shown by Python's own function, which prints to `sys.stderr`, and nothing in the trace has changed that or the filters."""
    namespace = vm.globals_of(vars(warnings))
    if not is_restored(vm) or vm.effects.is_mutated(vm.globals_of(vars(sys))):
        return False

    def attribute(name: str) -> Object:
        return vm.observe(namespace.lookup(vm, name) or vm.const(None))

    printer = attribute("_showwarnmsg_impl")
    its_own = printer.cls is FunctionType and printer.value.__module__ in MODULES and printer.value.__qualname__ == "_showwarnmsg_impl"
    is_pythons = all(attribute(name).value is attribute(original).value for name, original in SHOWN_BY)
    return its_own and is_pythons and not RECORDED_IN_CONTEXTS and not vm.effects.is_mutated(attribute("filters"))


def rows_of(vm: RunningTrace) -> tuple[Row, ...] | None:
    """The filters in force, each of which is guarded, if the trace has changed them; None if it hasn't."""
    if not any(known is not None and vm.effects.is_mutated(known) for known in (vm.met(vars(warnings)), vm.met(warnings.filters))):
        return None
    listed = vm.observe(vm.globals_of(vars(warnings)).lookup(vm, "filters") or vm.const(None))
    if listed.value is warnings.filters and not vm.effects.is_mutated(listed):
        return None
    rows = [vm.observe(row) for row in abstract.iterate(vm, listed)]
    found = tuple([tuple([vm.observe(part).constant(vm) for part in row.items(vm)]) for row in rows if isinstance(row, TupleObject)])
    if len(found) < len(rows) or not all(is_pythons(row) for row in found):
        vm.unsupported(breaks.SideEffect("a filter of warnings that isn't Python's"))
    return found


def is_pythons(row: Row) -> bool:
    """Return whether a filter has the form of those that the module makes."""
    return len(row) == 5 and all(pattern is None or type(pattern) in (str, re.Pattern) for pattern in (row[1], row[3])) and isinstance(row[2], type)


def matches(pattern: Any, text: str) -> bool:
    """Python/_warnings.c: check_matched."""
    return pattern is None or (pattern == text if type(pattern) is str else pattern.match(text) is not None)


def action_of(vm: VM, rows: tuple[Row, ...], message: Object, category: type[Warning], module: str, line: int) -> str:
    """The action for a warning by filters that the trace has changed (Python/_warnings.c: get_filter)."""
    for action, pattern, cls, of_module, of_line in rows:
        if issubclass(category, cls) and of_line in (0, line) and matches(of_module, module) and (pattern is None or matches(pattern, message.constant(vm))):
            return str(action)
    return ""


def do_more_than_print() -> bool:
    """Return whether the filters turn some warnings into exceptions, or another module has taken the place of `warnings`, whose functions show them."""
    defaults: Any = warnings
    replaced = sys.modules.get("warnings") is not warnings
    return replaced or defaults.defaultaction == "error" or any(row[0] == "error" for row in warnings.filters)


def can_wait(vm: VM) -> bool:
    """Return whether a warning may be given after the graph: it would only be printed then, whatever the filters say."""
    return is_only_printed(vm) and not vm.guards.read(do_more_than_print)


def module_of(vm: VM, namespace: Any) -> str:
    """The name of the module whose globals these are, by which filters choose."""
    name = vm.observe(namespace.lookup(vm, "__name__") or vm.const("<string>"))
    if name.cls is not str:
        vm.unsupported(breaks.SideEffect("warnings.warn()"))
    found: str = name.constant(vm)
    return found


@models(mutated)
def filters_mutated(vm: VM) -> Object:
    """Python forgets which warnings it has shown, once the filters are as the trace leaves them."""
    vm.effects.in_order(LaterCall(forget_shown, ()))
    return vm.const(None)


def lock_or_unlock(vm: VM) -> Object:
    """The trace neither takes nor gives back the lock."""
    return vm.const(None)


for _function in LOCKING:
    models(_function)(lock_or_unlock)


@models(warnings.warn)
def warn(vm: RunningTrace, message: Object, category: Object | None = None, stacklevel: Object | None = None, source: Object | None = None) -> Object:
    """warnings.warn with a text as the message. The line must be one of the traced functions'."""
    message = vm.observe(message)
    cls = vm.observe(category).constant(vm) if category is not None else None
    level = vm.observe(stacklevel).constant(vm) if stacklevel is not None else 1
    if cls is None:
        cls = UserWarning
    is_plain = message.cls is str and type(cls) is type and issubclass(cls, Warning) and type(level) is int and source is None
    found = vm.caller(max(level, 1) - 1) if is_plain else None
    if found is None:
        vm.unsupported(breaks.SideEffect("warnings.warn()"))
    frame, line = found
    rows = rows_of(vm)
    action = "" if rows is None else action_of(vm, rows, message, cls, module_of(vm, frame.globals), line)
    if action == "ignore":
        return vm.const(None)
    if action == "error":
        raise Raise(vm.observe(abstract.call(vm, vm.const(cls), [message])))
    if not can_wait(vm):
        vm.unsupported(breaks.SideEffect("warnings.warn()"))
    call = give, (message, cls, frame.globals, frame.code.co_filename, line)
    is_after = vm.effects.is_mutated(vm.globals_of(vars(warnings)))
    vm.effects.in_order(WarningAfterBlock(*call, vm, vm.place()) if is_after else LaterCall(*call))
    return vm.const(None)
