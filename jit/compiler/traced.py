"""The first stage: the call runs symbolically, to the end of its frame or to where tracing stops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from framejit import breaks
from framejit.ceval.signals import Raise
from framejit.driver.request import CompileRequest
from framejit.objects.object import NotConstant, Object
from framejit.report import FrameNote
from framejit.tracing.stops import CallNatively, Escape, GraphBreak
from framejit.tracing.tracer import Tracer


@dataclass(frozen=True, slots=True)
class Attempt:
    """One trace of a request, and what it is to be told of.

    Attributes:
        frame_id: numbers the frames that this process has compiled.
        collects: whether the program has the garbage collector on.
    """

    request: CompileRequest
    tracer: Tracer
    note: FrameNote
    frame_id: int
    collects: bool

    @property
    def first_argument(self) -> Any:
        """The call's first argument; None where it has none."""
        return self.tracer.args[0] if self.tracer.args else None


@dataclass(frozen=True, slots=True)
class Traced:
    """A trace that has ended. `result`: what the frame returns; None where the trace has stopped before, for the reason in `stop`."""

    attempt: Attempt
    result: Object | None
    stop: GraphBreak | None


def trace(attempt: Attempt) -> Traced:
    """Trace the frame. Raises CallNatively where another trace is needed."""
    try:
        return Traced(attempt, run(attempt.tracer), None)
    except CallNatively:
        raise
    except GraphBreak as stop:
        return Traced(attempt, None, stop)
    finally:
        attempt.note.lap("trace")


def run(tracer: Tracer) -> Object:
    """Run the frame symbolically. An exception that leaves it is the program's own: it runs as written, to raise it for real."""
    tracer.modes.enter()
    try:
        return tracer.run()
    except Raise as raised:
        entries = getattr(raised.exc, "entries", [])
        directives = getattr(raised.exc, "directives", None)
        raise Escape(raised.exc.cls, entries[::-1], tracer.directives if directives is None else directives) from None
    except NotConstant as needed:
        raise GraphBreak(breaks.UnsupportedValue(repr(needed.obj)), tracer.user_stack()) from needed
