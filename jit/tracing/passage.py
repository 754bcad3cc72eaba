"""Exceptions that pass through frames of a trace: the traceback entries that they get there, and the exception that the caller is handling."""

from __future__ import annotations

from collections.abc import Sequence

from framejit.ceval.frame import Frame
from framejit.codegen.tracebacks import Passed, without_variables
from framejit.errors import UserFrame
from framejit.guards.source import HandledException
from framejit.guards.tensor_source import FunctionModeInForce
from framejit.objects.core.object import Object
from framejit.objects.types.exceptions import ExceptionObject
from framejit.program import classes
from framejit.torch_state import torch_function_stack
from framejit.tracing.app_namespace import AppNamespace
from framejit.tracing.trace import Trace


def note(tracer: Trace, exc: Object, frame: Frame, reraised: bool) -> None:
    """Note that an exception leaves an instruction of the frame; `reraised`: the frame has handled it, so that it already has an entry for it."""
    if not reraised and isinstance(exc, ExceptionObject) and not isinstance(frame.globals, AppNamespace):
        lineno = frame.position().lineno or frame.code.co_firstlineno
        place = Passed(without_variables(frame.code), frame.instruction.offset, lineno, frame.globals.value)
        exc.add_entry(tracer, UserFrame.of(frame.code, frame.position()), place)


def handled_by_caller(tracer: Trace) -> Object | None:
    """The exception that the caller of the traced frame is handling; None, which is guarded too, if there is none."""
    found = tracer.observe(whatever_caller_handles(tracer))
    return None if found.cls is type(None) else found


def context_of_caller(tracer: Trace, exc: Object) -> Object | None:
    """The context of an exception that is raised outside all handlers of the traced frames. Nothing is guarded before something reads it,
    unless the exception has a context, which it keeps if the caller handles nothing.
    """
    if not isinstance(exc, ExceptionObject):
        return None
    has_one = exc.source is not None or "__context__" in exc.fields
    return handled_by_caller(tracer) if has_one else whatever_caller_handles(tracer)


def whatever_caller_handles(tracer: Trace) -> Object:
    return tracer.wrap(tracer.handled_by_caller, tracer.root_source.child(HandledException))


def modes_of_caller(tracer: Trace) -> tuple[Object, ...]:
    """torch's function modes that are in force at the call, without the default devices below them. Their types are guarded."""
    below = torch_function_stack.default_devices()
    modes = torch_function_stack.of_program()
    return tuple([tracer.observe(tracer.wrap(mode, tracer.root_source.child(FunctionModeInForce, below + i))) for i, mode in enumerate(modes)])


def untraceable_mode(tracer: Trace, frames: Sequence[Frame]) -> Object | None:
    """The function mode in force at the call that can't be traced: the trace has stopped in its answer to the first function. None if there is none.

    If the trace has stopped later, it may be because of the function and not of the mode.
    """
    if tracer.graph.has_operators():
        return None
    codes = {frame.code for frame in frames}
    answers = [(mode, classes.lookup(mode.cls, "__torch_function__", None)) for mode in tracer.graph.function_modes.initial]
    return next((mode for mode, answer in answers if getattr(answer, "__code__", None) in codes), None)
