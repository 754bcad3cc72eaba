"""contextvars: what a variable holds is guarded like a setting of the process, where it is a plain constant. Changing one breaks."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from framejit import breaks
from framejit.guards.kinds import ValueIs
from framejit.guards.source import MISSING
from framejit.objects.object import VM, Object
from framejit.objects.registry import models, refuse

PLAIN = (bool, int, float, str, bytes, type(None))


@models(ContextVar.get)
def get(vm: VM, self: Object, *default: Object) -> Object:
    """Python/context.c: PyContextVar_Get. A default that is given comes before the variable's own."""
    variable = self.value
    if variable is MISSING or len(default) > 1:
        vm.unsupported(breaks.GlobalStateUnsupported("a context variable that the trace has made, or `get` with these arguments"))
    found = value_of(variable, bool(default))
    if not (found is MISSING and default) and type(found) not in PLAIN:
        vm.unsupported(breaks.GlobalStateUnsupported(f"the context variable {variable.name}, which holds no plain constant"))
    if self.source is not None:
        vm.guard(ValueIs, self.source, variable)
    vm.guards.read(told, variable, bool(default))
    return default[0] if found is MISSING else vm.const(found)


refuse(breaks.GlobalStateUnsupported("a change of a context variable"), ContextVar.set, ContextVar.reset)


def value_of(variable: ContextVar[Any], unset: bool) -> Any:
    """What the variable holds, MISSING for nothing; with `unset`, its own default counts as nothing."""
    if unset:
        return variable.get(MISSING)
    try:
        return variable.get()
    except LookupError:
        return MISSING


def told(variable: ContextVar[Any], unset: bool) -> tuple[type, str]:
    """What the variable holds, as text that tells 1 from 1.0 and 0.0 from -0.0; the text of what is no plain constant is not asked for."""
    found = value_of(variable, unset)
    return type(found), repr(found) if type(found) in PLAIN else ""
