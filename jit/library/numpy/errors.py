"""numpy.errstate as a context: it affects only warnings, which compiled code doesn't give. If there is a graph break inside, it is entered natively."""

from __future__ import annotations

from types import CodeType
from typing import Any

import numpy

from framejit import breaks
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.core.registry import models

WARNINGS = ("ignore", "warn", None)
"""Settings of errstate that raise nothing, and call nothing."""


class ErrorState(Object):
    """A numpy.errstate that the trace has made. `place`: where it was entered, which NumPy records; `is_entered`: it is in force."""

    __slots__ = ("vm", "asked", "place", "is_entered")

    def __init__(self, vm: VM, asked: dict[str, Object]) -> None:
        super().__init__(numpy.errstate)
        self.vm = vm
        self.asked = asked
        self.place: tuple[CodeType, int] | None = None
        self.is_entered = False

    def reconstruct(self, cg: Codegen) -> None:
        self.enter_natively(self.place is not None)
        cg.load_const(tuple(self.asked))
        for value in self.asked.values():
            cg.load(value)
        cg.build_tuple(len(self.asked))
        cg.call_const(error_state, 2)

    def replay(self, cg: Codegen) -> None:
        self.enter_natively(self.is_entered)

    def enter_natively(self, must: bool) -> None:
        if must and self.place is not None:
            self.vm.restart(self.place, breaks.GlobalStateUnsupported("a numpy.errstate around a graph break, or kept"))

    def referents(self) -> list[Object]:
        return list(self.asked.values())


def error_state(names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """A numpy.errstate (runs in generated code)."""
    return numpy.errstate(**dict(zip(names, values)))


@models(numpy.errstate)
def make(vm: VM, **asked: Object) -> Object:
    if any(name not in ("all", "divide", "over", "under", "invalid") for name in asked):
        vm.unsupported(breaks.UnsupportedCall("numpy.errstate with these arguments"))
    return ErrorState(vm, asked)


@models(numpy.errstate.__enter__)
def enter(vm: VM, self: Object) -> Object:
    if not isinstance(self, ErrorState) or self.place is not None:
        vm.unsupported(breaks.GlobalStateUnsupported("a numpy.errstate that is kept"))
    if any(vm.observe(how).cls not in (str, type(None)) or vm.observe(how).constant(vm) not in WARNINGS for how in self.asked.values()):
        vm.unsupported(breaks.GlobalStateUnsupported("a numpy.errstate that asks for more than warnings"))
    vm.trail.set(self, "place", vm.place())
    vm.trail.set(self, "is_entered", True)
    vm.effects.at_end(self)
    return vm.const(None)


@models(numpy.errstate.__exit__)
def leave(vm: VM, self: Object, *exception: Object) -> Object:
    if not isinstance(self, ErrorState) or not self.is_entered:
        vm.unsupported(breaks.GlobalStateUnsupported("the end of a numpy.errstate"))
    vm.trail.set(self, "is_entered", False)
    return vm.const(None)
