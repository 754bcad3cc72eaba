"""What an exception that passes frames of a trace leaves there (traceback entries, which hold variables), and finds (what the caller handles)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framejit.ceval.frame import Frame, State
from framejit.codegen.tracebacks import Passed, without_variables
from framejit.errors import UserFrame
from framejit.guards.source import HandledException
from framejit.objects.cellobject import CellObject
from framejit.objects.exceptions import AddedEntry, ExceptionObject
from framejit.objects.finalizers import ends_visibly
from framejit.objects.object import Object
from framejit.tracing.splitting import AppNamespace
from framejit.tracing.trace import Trace

if TYPE_CHECKING:
    from framejit.ceval.closing import Watch


def note(tracer: Trace, exc: Object, frame: Frame, again: bool) -> None:
    """An exception leaves an instruction of the frame; `again`: one that the frame has handled, and which holds it already."""
    known = tracer.watch.passed.setdefault(exc, []) if tracer.watch else []
    if again and (not tracer.watch or any(frame is held for held, _ in known)):
        return
    place = None
    if isinstance(exc, ExceptionObject) and not isinstance(frame.globals, AppNamespace):
        lineno = frame.position().lineno or frame.code.co_firstlineno
        place = Passed(without_variables(frame.code), frame.instruction.offset, lineno, frame.globals.value)
        if not again:
            exc.add_entry(tracer, UserFrame.of(frame.code, frame.position()), place)
        elif exc.source is not None:
            tracer.effects.at_end(AddedEntry(exc, place, True))
    if tracer.watch:
        known.append((frame, place))
        tracer.trail.log(known.pop)


def handled_by_caller(tracer: Trace) -> Object | None:
    """The exception that the caller of the traced frame is handling; None, which is guarded too, if there is none."""
    found = tracer.observe(whatever_caller_handles(tracer))
    return None if found.cls is type(None) else found


def context_of_caller(tracer: Trace, exc: Object) -> Object | None:
    """What becomes the context of an exception that no handler of the traced frames surrounds. Nothing is guarded before somebody looks at it,
    unless the exception has a context, which stays where the caller handles nothing.
    """
    if not isinstance(exc, ExceptionObject):
        return None
    has_one = exc.source is not None or "__context__" in exc.fields
    return handled_by_caller(tracer) if has_one else whatever_caller_handles(tracer)


def whatever_caller_handles(tracer: Trace) -> Object:
    return tracer.wrap(tracer.handled_by_caller, tracer.root_source.child(HandledException))


def find_variables(watch: Watch) -> None:
    """Give the exceptions the variables of frames that they have passed, so far as the end of these is seen: their tracebacks hold them."""
    for exc, passed in watch.passed.items():
        if isinstance(exc, ExceptionObject):
            exc.variables = {place: visible_variables(frame) for frame, place in passed if place is not None and frame.state is State.FINISHED}


def visible_variables(frame: Frame) -> dict[str, Object]:
    """The variables of a frame that has ended whose end the program sees."""
    values = ((name, content_of(value)) for name, value in zip(frame.decoded.slots, frame.locals) if value is not None)
    return {name: value for name, value in values if ends_visibly(value)}


def content_of(value: Object) -> Object:
    """What a cell is known to hold; any other value as it is."""
    return value.content if isinstance(value, CellObject) and value.content is not None else value
