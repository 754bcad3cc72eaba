"""contextvars: the value of a variable is guarded like a setting of the process, if it is a plain constant. Changing one breaks.

Setting one to its present value (torch 2.15's `sdpa_kernel`) changes nothing, provided that the trace also resets it.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from types import CodeType
from typing import Any

from framejit import breaks
from framejit.guards.kinds import ValueIs
from framejit.guards.source import MISSING
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.core.registry import models

PLAIN = (bool, int, float, str, bytes, type(None))
CHANGE = breaks.GlobalStateUnsupported("a change of a context variable")
OWN_DEFAULT_COUNTS: set[ContextVar[Any]] = set()
"""Variables that are only read with their own default: being set to it is the same as being unset."""


@models(ContextVar.get)
def get(vm: VM, self: Object, *default: Object) -> Object:
    """Python/context.c: PyContextVar_Get. A default that is passed takes precedence over the variable's own."""
    variable = self.value
    if variable is MISSING or len(default) > 1:
        vm.unsupported(breaks.GlobalStateUnsupported("a context variable that the trace has made, or `get` with these arguments"))
    found = value_of(variable, bool(default))
    if not (found is MISSING and default) and type(found) not in PLAIN:
        vm.unsupported(breaks.GlobalStateUnsupported(f"the context variable {variable.name}, which holds no plain constant"))
    if self.source is not None:
        vm.guard(ValueIs, self.source, variable)
    vm.guards.read(type_and_repr, variable, bool(default))
    return default[0] if found is MISSING else vm.const(found)


class SetToTheSame(Object):
    """The Token of a `set` that the trace has left out. If no `reset` follows in the trace, a restart leaves `set` to native code."""

    __slots__ = ("vm", "variable", "place", "is_set")

    def __init__(self, vm: VM, variable: ContextVar[Any]) -> None:
        super().__init__(Token)
        self.vm, self.variable = vm, variable
        self.place: tuple[CodeType, int] = vm.place()
        self.is_set = True

    def reconstruct(self, cg: Codegen) -> None:
        self.vm.restart(self.place, CHANGE)

    def replay(self, cg: Codegen) -> None:
        if self.is_set:
            self.vm.restart(self.place, CHANGE)


@models(ContextVar.set)
def set_(vm: VM, self: Object, value: Object) -> Object:
    """Python/context.c: PyContextVar_Set."""
    variable = self.value
    if variable is MISSING or vm.observe(value).cls not in PLAIN:
        vm.unsupported(CHANGE)
    new, own = vm.observe(value).constant(vm), variable not in OWN_DEFAULT_COUNTS
    if (type(new), repr(new)) != type_and_repr(variable, own):
        vm.unsupported(CHANGE)
    if self.source is not None:
        vm.guard(ValueIs, self.source, variable)
    vm.guards.read(type_and_repr, variable, own)
    token = SetToTheSame(vm, variable)
    vm.effects.at_end(token)
    return token


@models(ContextVar.reset)
def reset(vm: VM, self: Object, token: Object) -> Object:
    """Python/context.c: PyContextVar_Reset."""
    token = vm.observe(token)
    if not isinstance(token, SetToTheSame) or not token.is_set or token.variable is not self.value:
        vm.unsupported(CHANGE)
    if self.source is not None:
        vm.guard(ValueIs, self.source, token.variable)
    vm.trail.set(token, "is_set", False)
    return vm.const(None)


def value_of(variable: ContextVar[Any], unset: bool) -> Any:
    """The value of the variable, MISSING if unset; with `unset`, its own default counts as unset."""
    if unset:
        return variable.get(MISSING)
    try:
        return variable.get()
    except LookupError:
        return MISSING


def type_and_repr(variable: ContextVar[Any], unset: bool) -> tuple[type, str]:
    """The value of the variable, as text that distinguishes 1 from 1.0 and 0.0 from -0.0; a value that isn't a plain constant isn't converted to text."""
    found = value_of(variable, unset)
    return type(found), repr(found) if type(found) in PLAIN else ""
