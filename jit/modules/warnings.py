"""warnings.warn: a warning is given behind the graph, for the line that it is about, unless it may become an exception."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from framejit import breaks
from framejit.objects.object import VM, Codegen, Object
from framejit.objects.registry import models


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning to be given for a line of a file. `namespace`: the globals of its code, which keep what has been shown already."""

    message: Object
    category: type[Warning]
    namespace: Object
    filename: str
    line: int

    def replay(self, cg: Codegen) -> None:
        cg.load(self.message)
        cg.load_const(self.category)
        cg.load(self.namespace)
        cg.load_const(self.filename)
        cg.load_const(self.line)
        cg.call_const(give, 5)
        cg.pop_top()

    def referents(self) -> list[Object]:
        return [self.message, self.namespace]


def give(message: str, category: type[Warning], namespace: dict[str, Any], filename: str, line: int) -> None:
    """Run by generated code: what `warnings.warn` does once it knows the line (Python/_warnings.c: setup_context)."""
    registry = namespace.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, filename, line, namespace.get("__name__", "<string>"), registry)


def may_raise() -> bool:
    """Whether the filters make an exception of any warning."""
    defaults: Any = warnings
    return defaults.defaultaction == "error" or any(row[0] == "error" for row in warnings.filters)


@models(warnings.warn)
def warn(vm: VM, message: Object, category: Object | None = None, stacklevel: Object | None = None, source: Object | None = None) -> Object:
    """Texts as messages. The line must be one of the traced functions'."""
    message = vm.observe(message)
    cls = vm.observe(category).constant(vm) if category is not None else None
    level = vm.observe(stacklevel).constant(vm) if stacklevel is not None else 1
    if cls is None:
        cls = UserWarning
    is_plain = message.cls is str and type(cls) is type and issubclass(cls, Warning) and type(level) is int and source is None
    found = vm.caller(max(level, 1) - 1) if is_plain else None
    if found is None or vm.guards.read(may_raise):
        vm.unsupported(breaks.SideEffect("warnings.warn()"))
    frame, line = found
    vm.effects.in_order(Warned(message, cls, frame.globals, frame.code.co_filename, line))
    return vm.const(None)
