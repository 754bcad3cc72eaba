"""The first stage: the call is run symbolically, up to the end of its frame or to the place where tracing stops."""

from __future__ import annotations

from typing import Any

from framejit import breaks
from framejit.driver.request import CompileRequest
from framejit.objects.core.object import NotConstant, Object, Raise
from framejit.quick_dataclass import dataclass
from framejit.report import Stopwatch
from framejit.tracing.stops import Escape, GraphBreak
from framejit.tracing.tracer import Tracer


@dataclass(frozen=True, slots=True)
class Attempt:
    """One trace of a request.

    Attributes:
        stopwatch: measures the stages of all attempts together.
        frame_id: the number of this frame among those that this process has compiled.
    """

    request: CompileRequest
    tracer: Tracer
    stopwatch: Stopwatch
    frame_id: int

    @property
    def first_argument(self) -> Any:
        """The first argument of the call; None if it has none."""
        return self.tracer.args[0] if self.tracer.args else None


@dataclass(frozen=True, slots=True)
class Traced:
    """A trace that has ended. `result` is the value that the frame returns, or None if the trace has stopped before that, for the reason in `stop`."""

    attempt: Attempt
    result: Object | None
    stop: GraphBreak | None


def trace(attempt: Attempt) -> Traced:
    """Trace the frame. Raises Restart if the trace must be restarted."""
    try:
        return Traced(attempt, run(attempt.tracer), None)
    except GraphBreak as stop:
        return Traced(attempt, None, stop)
    finally:
        attempt.stopwatch.lap("trace")


def run(tracer: Tracer) -> Object:
    """Run the frame symbolically. If the program's own exception leaves the frame, the trace stops: the frame runs uncompiled, and raises it for real."""
    tracer.graph.modes.enter()
    try:
        return tracer.run()
    except Raise as raised:
        entries = getattr(raised.exc, "entries", [])
        directives = getattr(raised.exc, "directives", None)
        raise Escape(raised.exc.cls, entries[::-1], tracer.directives if directives is None else directives) from None
    except NotConstant as needed:
        raise GraphBreak(breaks.UnsupportedValue(repr(needed.obj)), tracer.user_stack()) from needed
