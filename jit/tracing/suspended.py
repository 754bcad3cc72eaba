"""Suspended generators from outside: their frames are read, and traced on from the `yield` at which they wait.

    for batch in batches:      # a generator that the caller has made, or that lives on after a graph break
        total = total + batch

Nothing is written to the real generator while tracing. What the trace has made of its frame is an effect (OutsideGenerator.replay): after the graph,
the generator waits at another `yield`, with other variables, or has ended.
"""

from __future__ import annotations

from types import CellType
from typing import NoReturn

from framejit import breaks
from framejit.bytecode.liveness import live_slots
from framejit.ceval.frame import Frame, State
from framejit.guards.generators import HasEnded, Suspended, SuspendedAt, SuspendedFunction, SuspendedSlot, suspended
from framejit.guards.source import MISSING, Slot, Source
from framejit.objects.core.object import Object
from framejit.objects.types.funcobject import FunctionObject
from framejit.objects.types.genobject import OutsideGenerator
from framejit.tracing import boundary, looks
from framejit.tracing.trace import Trace

STATES = {"RETURN_GENERATOR": State.CREATED, "YIELD_VALUE": State.SUSPENDED}
"""The instructions that suspend a generator, and the stage of life that it has then."""


def frame_of(tracer: Trace, generator: OutsideGenerator, caller: Frame) -> Frame:
    """The frame of a generator from outside, which is read when `caller` first resumes it. Breaks if it can't be read."""
    if generator.frame is None:
        frame = read(tracer, generator, caller)
        tracer.trail.fill(generator, "offset", frame.instruction.offset)
        tracer.trail.fill(generator, "slots", (*frame.locals, *frame.stack))
        tracer.trail.fill(generator, "frame", frame)
    found: Frame = generator.frame
    return found


def read(tracer: Trace, generator: OutsideGenerator, caller: Frame) -> Frame:
    """A frame like that of the real generator, with guards on where it is suspended."""
    source, value = generator.source, generator.value
    assert source is not None
    found = suspended(value)
    if found is None:
        return ended(tracer, generator, caller)
    function = tracer.observe(tracer.wrap(found.function, source.child(SuspendedFunction)))
    if not isinstance(function, FunctionObject) or function.code is not found.code:
        unreadable(tracer, "a generator whose function has got other code")
    if found.code in tracer.breaks_at:
        tracer.unsupported(tracer.breaks_at[found.code])
    foreseen = boundary.foreseen(caller, found.code) or looks.by_debugger(found.code, function.globals.value)
    if foreseen is not None:
        tracer.unsupported(foreseen)
    function.check_code(tracer)
    frame = Frame(found.code, {}, function.globals, function.builtins or tracer.globals_of(function.value.__builtins__), function)
    if boundary.reason_to_skip(tracer, frame) is not None:
        unreadable(tracer, f"a generator of {found.code.co_qualname}(), whose code isn't traced")
    tracer.files.add(found.code.co_filename)
    stopped = [index for index, each in enumerate(frame.decoded.instructions) if each.offset == found.offset and each.op in STATES]
    if len(stopped) != 1:
        unreadable(tracer, "a generator that waits at an unknown instruction")
    frame.pc = stopped[0]
    frame.state = STATES[frame.instruction.op]
    tracer.guard(SuspendedAt, source, found.code, found.offset, filled(frame, found))
    fill(tracer, frame, source, found)
    return frame


def filled(frame: Frame, found: Suspended) -> tuple[bool | None, ...]:
    """The slots that hold something, None for variables that the code doesn't read any more before it sets them."""
    live = live_slots(frame.code, frame.decoded)[frame.pc if frame.state is State.SUSPENDED else frame.pc + 1]
    dead = {*range(len(frame.locals))} - {*live, *frame.decoded.cells, *frame.decoded.frees}
    return tuple([None if index in dead else content is not MISSING for index, content in enumerate(found.slots)])


def fill(tracer: Trace, frame: Frame, source: Source, found: Suspended) -> None:
    """Give a frame the variables and the stack of a real one."""
    names, scopes = frame.decoded.slots, {*frame.decoded.cells, *frame.decoded.frees}
    for index, content in enumerate(found.slots):
        slot = None
        if content is not MISSING:
            slot = tracer.wrap(content, source.child(SuspendedSlot, Slot(index, names[index] if index < len(names) else "")))
        if index >= len(names):
            frame.stack.append(slot)
        else:
            frame.locals[index] = tracer.observe(slot) if slot is not None and index in scopes and type(content) is CellType else slot


def ended(tracer: Trace, generator: OutsideGenerator, caller: Frame) -> Frame:
    """The frame of a generator that has ended."""
    assert generator.source is not None
    guard = HasEnded(generator.source, None)
    if not guard.check(generator.value, tracer.call):
        unreadable(tracer, "a generator that is running" if generator.value.gi_running else "a generator that handles an exception, or whose frame is in use")
    tracer.guard(HasEnded, generator.source)
    frame = Frame(generator.value.gi_code, {}, caller.globals, caller.builtins)
    frame.state = State.FINISHED
    return frame


def check_left(tracer: Trace, frame: Frame) -> None:
    """Break if a generator from outside waits where the real one can't be put: in a handler of an exception."""
    if frame.handled is not None or any(not (value is None or isinstance(value, Object)) for value in frame.stack):
        unreadable(tracer, "a generator that handles an exception")


def unreadable(tracer: Trace, what: str) -> NoReturn:
    """Break at the step of a generator."""
    tracer.unsupported(breaks.IteratorFromOutside(what))


__all__ = ["check_left", "frame_of"]
