"""The view that the parts of the tracer have of their trace, beyond what objects see of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from framejit.breaks import Break
from framejit.ceval.frame import Frame
from framejit.errors import UserFrame
from framejit.graph.builder import TorchVM
from framejit.guards.source import Source
from framejit.objects.core.object import Object
from framejit.tracing.stops import Place


class Trace(TorchVM, Protocol):
    """The running trace.

    Attributes:
        handled_by_caller: the exception that the caller of the traced frame is handling; None if it handles none.
        breaks_at: the places at which it must break, and why, as found by earlier traces of the same call, of which it is a restart.
        ways: the number of branches on data around the present instruction of which both ways are traced.
        jumps_back: the number of iterations of loops so far.
        files: the source files of all code in it.
        rebuilt: the frames of generators that the state of a split call rebuilds.
    """

    handled_by_caller: BaseException | None
    breaks_at: Mapping[Place, Break]
    ways: int
    jumps_back: int
    files: set[str]
    rebuilt: list[Frame]

    def note_handled(self) -> None:
        """Note that the program has a handler for what an operation in the graph raises."""

    def user_stack(self, frame: Frame | None = None) -> list[UserFrame]:
        """The frames of the traced program, outermost first, down to the innermost one or to the given one."""

    def observe_at(self, value: Any, source: Source, check: bool) -> Object:
        """The Object of the value at a source. `check`: whether its type, or its identity, must be guarded."""
