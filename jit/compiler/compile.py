"""The way of a compile: a request goes through the stages, and comes out as an entry."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from framejit import breaks, logs, modules
from framejit._runtime import CompiledFunction, Entry
from framejit.bytecode import abort
from framejit.bytecode.decode import decode
from framejit.codegen import Following, emit
from framejit.codegen.again import ended, follow
from framejit.compiler.broken import plan_break, report_break
from framejit.compiler.compiled import Compiled, compile_planned
from framejit.compiler.entry_spec import EntrySpec, adopt, make, run_as_written
from framejit.compiler.planned import AsWritten, Planned, plan_end
from framejit.compiler.surroundings import ONE_AT_A_TIME, deeper_recursion, undisturbed, wait
from framejit.compiler.traced import Attempt, Traced, trace
from framejit.driver import loader
from framejit.driver.compiled_module import home
from framejit.driver.request import CompileRequest
from framejit.errors import InternalError
from framejit.guards.build import check_all
from framejit.guards.explain import describe, explain_failure
from framejit.guards.kinds import Guard, ValueIs
from framejit.guards.source import Call, Local, Root, Slot
from framejit.report import STATISTICS, BreakNote, FrameNote, is_recording, record
from framejit.tracing import boundary
from framejit.tracing.stops import CallNatively, GraphBreak, Place
from framejit.tracing.tracer import Tracer

_frames = itertools.count()


def compile_call(request: CompileRequest) -> Entry:
    """The entry of a call. It holds replacement code, or None where the frame has to run as written.

    Raises Unsupported where tracing stops and that is an error, BackendError where the backend fails, what a signal handler raises.
    """
    function = request.function
    code = home(function, request.args[0] if request.args else None)
    note = FrameNote(function.__qualname__ if code is function.__code__ else code.co_qualname, code.co_filename, code.co_firstlineno)
    with ONE_AT_A_TIME, deeper_recursion(), undisturbed() as collects:
        entry = compile_in_attempts(request, note, collects)
    if entry.code is not None or note.fallback is not None:
        tell(request.behind, note)
    return entry


def compile_in_attempts(request: CompileRequest, note: FrameNote, collects: bool) -> Entry:
    """One trace after the other, until one needs no other. Each learns from those before it what to leave to native code."""
    options, frame_id = request.options, next(_frames)
    natively: dict[Place, breaks.Break] = {}
    while True:
        tracer = Tracer(
            request.function, request.args, options.config, request.changing, natively, dict(request.names), options.backend.one_autograd_node
        )
        try:
            return compile_once(Attempt(request, tracer, note, frame_id, collects))
        except CallNatively as needed:
            assert needed.place not in natively, needed
            natively[needed.place] = needed.reason
        finally:
            tracer.dispose()


def compile_once(attempt: Attempt) -> Entry:
    """The stages, one after the other. Raises CallNatively where another trace is needed."""
    tracer = attempt.tracer
    try:
        planned = plan(trace(attempt))
        if isinstance(planned, AsWritten):
            entry = make(spec_as_written(planned))
        else:
            entry = make(specify(compile_planned(planned)))
            report(planned, entry)
    finally:
        tracer.modes.restore()
    if "compile" in tracer.config.checks():
        verify(entry.spec.guards, Call(tuple(tracer.args), tracer.function))
    return entry


def plan(traced: Traced) -> Planned | AsWritten:
    """What becomes of a trace: it has come to the frame's end, or stopped before."""
    stop = traced.stop
    if stop is None:
        assert traced.result is not None
        try:
            return plan_end(traced.attempt, traced.result)
        except CallNatively:
            raise
        except GraphBreak as refused:
            stop = refused
    return plan_break(traced.attempt, stop)


def specify(compiled: Compiled) -> EntrySpec:
    """The entry as data: the replacement code, and what its calls are to be checked for."""
    planned = compiled.planned
    attempt, code_plan, behind = planned.attempt, planned.plan, planned.behind
    step: Callable[..., Any] | None = None if behind is None else behind.step
    resumes: tuple[CompiledFunction, ...] = () if behind is None else behind.resumes
    follows: Following | None = None
    if code_plan.trace.again and step is not None:
        follows, step, resumes = Following(step, len(resumes)), follow, (*resumes, ended())
    code, direct = emit(code_plan, compiled.fn, compiled.boxed, follows)
    attempt.note.lap("emit")
    return EntrySpec(
        guards=compiled.guards,
        origin=attempt.request.origin,
        code=code,
        inputs=[described.source for described in planned.graph.inputs] if compiled.fn is not None else [],
        captures=code_plan.captures,
        graph=compiled.fn,
        direct=direct,
        step=step,
        resumes=resumes,
        shared=True,
    )


def spec_as_written(planned: AsWritten) -> EntrySpec:
    """The entry of a frame that runs as written, as data."""
    return EntrySpec(
        guards=planned.guards,
        origin=planned.attempt.request.origin,
        reason=planned.reason,
        watched=planned.watched,
        outcome=planned.outcome,
        shared=planned.reason is not None,
    )


def report(planned: Planned, entry: Entry) -> None:
    """Count and log an entry that has just been made, and the break that it ends in."""
    attempt, function, guards = planned.attempt, planned.attempt.tracer.function, entry.spec.guards
    attempt.note.lap("guards")
    if is_recording():
        attempt.note.guards = describe(guards).splitlines()
    STATISTICS.add("frames")
    STATISTICS.add("guards", len(guards))
    if logs.enabled("guards"):
        logs.info("guards", f"guards of {function.__qualname__}", describe(guards))
    if logs.enabled("bytecode"):
        assert entry.code is not None
        logs.info("bytecode", f"{function.__qualname__} as written", decode(function.__code__).listing())
        logs.info("bytecode", f"{function.__qualname__} as compiled", decode(entry.code).listing())
    if planned.behind is not None:
        report_break(planned, planned.behind)


def tell(behind: BreakNote | None, note: FrameNote) -> None:
    """Note a compilation, and what it is the rest of."""
    record(note)
    if behind is not None:
        if not behind.after:
            logs.behind_break(behind, note.operations)
        behind.after.append(note.operations or 0)


def verify(guards: Sequence[Guard], call: Call) -> None:
    """The Python reference must accept the call that the entry was made for (FRAMEJIT_CHECK), unless another thread has changed something."""
    failing = check_all(guards, call)
    if failing is not None and threading.active_count() == 1:
        raise InternalError(f"a new guard rejects its own call: {explain_failure([failing], call)}")


def leave(function: FunctionType, args: tuple[Any, ...], error: BaseException) -> Entry:
    """A resume function that could not be compiled: raise the error where it would have gone on, so that the call's own handlers see it.

    Raises what comes out; an entry for this one call where the program handles the error and returns.
    """
    raises = abort.raising(function, error)
    if raises is None:
        try:
            raise error
        finally:
            del error  # its traceback leads to this frame
    result = raises(*args)
    source = Root().child(Local, Slot(0, function.__code__.co_varnames[0]))
    return make(EntrySpec([ValueIs(source, None, args[0])], code=abort.returning(function.__code__, result)))


def forget() -> None:
    """Begin anew: part of `reset()`."""
    boundary.forget()


modules.load()
loader.offer(loader.CompilerProper(compile_call, adopt, run_as_written, leave, wait, forget))
