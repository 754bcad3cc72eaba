"""The interpreter's view of the running trace, beyond what objects see of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from framejit.ceval.frame import Frame
from framejit.objects.core.object import VM, Object


class Machine(VM, Protocol):
    """The running trace, for which the loop runs frames."""

    has_generators: bool
    """True if the traced frame is a resume function's whose state holds suspended generators."""

    def add_traceback(self, exc: Object, frame: Frame, reraised: bool) -> None:
        """An exception leaves an instruction of the frame: record an entry as `PyTraceBack_Here` does. `reraised`: the frame has handled it before."""

    def met(self, value: object) -> Object | None:
        """The Object of a real value that is compared by identity, if the trace has observed it."""

    def lets_go(self, values: Iterable[Any]) -> None:
        """If `has_generators`: an instruction or an exception releases these values. May stop the trace."""

    def choose_way(self, frame: Frame, condition: Object, if_true: int, if_false: int) -> int:
        """The instruction at which a frame continues after a branch: `if_true` or `if_false`. If the trace can't know that, and both ways can be in the
        graph, it is where they meet, with the values there that depend on the condition. Raises Return if they meet after the frame."""

    def count_iteration(self) -> None:
        """A loop begins again. A trace that would not end is given up."""
