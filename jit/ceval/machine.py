"""The interpreter's view of the running trace, beyond what objects see of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from framejit.ceval.frame import Frame
from framejit.objects.core.object import VM, Object


class Machine(VM, Protocol):
    """The running trace, for which the loop runs frames."""

    has_generators: bool
    """Whether the traced frame is a resume function's whose state holds suspended generators."""

    def add_traceback(self, exc: Object, frame: Frame, reraised: bool) -> None:
        """An exception leaves an instruction of the frame: record an entry as `PyTraceBack_Here` does. `reraised`: the frame has handled it before."""

    def lets_go(self, values: Iterable[Any]) -> None:
        """If `has_generators`: an instruction or an exception releases these values. May stop the trace."""

    def count_iteration(self) -> None:
        """A loop begins again. A trace that would not end is given up."""
