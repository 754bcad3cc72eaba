"""What native code at the end of a call will have changed: values that the trace doesn't know any more."""

from __future__ import annotations

from types import CodeType
from typing import NoReturn

from framejit.breaks import Break
from framejit.guards.source import MISSING
from framejit.objects.object import VM, Codegen, Object


class Outdated(Object):
    """A value that native code puts in the place of another one, behind the graph. It may be passed on and dropped. Whoever looks at it breaks the graph:
    behind the break the value is there.

    `place`: the instruction that has the native code run, see `VM.place`. Where a value of this kind would have to be built, the trace is restarted, and
    breaks there.
    """

    __slots__ = ("vm", "place", "reason")

    def __init__(self, vm: VM, place: tuple[CodeType, int], reason: Break) -> None:
        self.vm = vm
        self.place = place
        self.reason = reason
        self.source = None
        self.value = MISSING
        self.attrs = None

    @property
    def cls(self) -> NoReturn:  # type: ignore[override]
        """No operation does without the type of a value."""
        self.vm.unsupported(self.reason)

    def __repr__(self) -> str:
        return "a value that native code has changed"

    def reconstruct(self, cg: Codegen) -> None:
        self.vm.restart(self.place, self.reason)
