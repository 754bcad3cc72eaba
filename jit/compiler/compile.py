"""Turns a request into an entry, by calling the stages of a compile in order."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any

from framejit import breaks, library, logs
from framejit._runtime import CompiledFunction, Entry
from framejit.backends.eager import BACKEND as RECORDED
from framejit.backends.left_to_autograd import LeftToAutograd
from framejit.bytecode import abort
from framejit.bytecode.decode import decode
from framejit.codegen import Continuation, emit
from framejit.codegen.rerun import follow
from framejit.compiler.compiled import Compiled, compile_planned, with_shapes
from framejit.compiler.planned import Planned, Uncompiled, plan_end
from framejit.compiler.retreats import FailedGraph, TraceTerms, retreat
from framejit.compiler.superseded import fate
from framejit.compiler.surroundings import undisturbed
from framejit.compiler.traced import Attempt, Traced, trace
from framejit.driver import beside, loader
from framejit.driver.compiled_module import home
from framejit.driver.entry_spec import EntrySpec, Replacement, adopt, ended, for_one_call, make, run_uncompiled
from framejit.driver.history import Family
from framejit.driver.request import CompileRequest
from framejit.errors import BackendError, InternalError, program_name
from framejit.graph.demands import RestartVarying, RestartWith
from framejit.guards.build import check_all
from framejit.guards.kinds import Guard, ValueIs
from framejit.guards.source import Call, Local, Root, Slot
from framejit.process.one_at_a_time import ONE_AT_A_TIME
from framejit.process.recursion import deeper_recursion
from framejit.process.underway import Compilation, underway
from framejit.process.when_needed import when_needed
from framejit.report import STAGES, STATISTICS, BreakNote, FrameNote, is_recording, record
from framejit.torch_state.no_symbols import standing_in
from framejit.torch_state.peer import left_alone
from framejit.torch_state.transforms_in_force import temporarily_clear_interpreter_stack
from framejit.tracing import boundary
from framejit.tracing.is_compiling import AnswerWithheld, Withheld
from framejit.tracing.stops import Ahead, GraphBreak, Place, Restart, RestartForGood
from framejit.tracing.tracer import Tracer

broken = when_needed("framejit.compiler.broken")
explain = when_needed("framejit.guards.explain")

_frames = itertools.count()


class OutOfDate(Exception):
    """Signal: the trace has imported modules that changed what it had read before, such as a registry that they add to."""


def compile_call(request: CompileRequest) -> Entry:
    """Make the entry for a call. It holds replacement code, or None if the frame must run uncompiled.

    Raises Unsupported if tracing stops and that is an error, BackendError if the backend fails, and whatever a signal handler of the program raises.
    """
    with underway(compilation_of(request)) as compilation:
        with ONE_AT_A_TIME, deeper_recursion(), left_alone(), standing_in(), undisturbed():
            entry, note = compile_in_attempts(request, compilation)
        compilation.note = note
    if note is not None:
        tell(request.resumed_after, note)
    return entry


def compilation_of(request: CompileRequest) -> Compilation:
    """The compilation of a request, for those who are told of it."""
    why = "graph break" if request.resumed_after is not None else "first call" if request.origin.cause is None else "recompile"
    return Compilation(home(request.function, request.args[0] if request.args else None), why, request.options.backend.name, beside.is_worker())


def compile_in_attempts(request: CompileRequest, compilation: Compilation) -> tuple[Entry, FrameNote | None]:
    """Trace again until no trace asks for a restart. After a restart, the trace breaks where earlier traces have found that it must.

    Where the backend fails on a graph, the next trace gives something up (retreats.py). A graph that a backend isn't to blame for is compiled with the one
    that leaves gradients to autograd.
    """
    options, frame_id, stopwatch = request.options, next(_frames), compilation.stopwatch
    breaks_at: dict[Place, breaks.Break] = dict(request.family.breaks_at)
    terms = first = first_terms(request)
    withheld = Withheld(request.family.withheld, is_one_graph=bool(options.fullgraph))
    while True:
        library.load_waiting()
        tracer = Tracer(
            request.function, request.args, options.config, request.changing, breaks_at, request.names, terms.dynamic, terms.demands, withheld,
        )  # fmt: skip
        compilation.where, stopwatch.stage = tracer.where, STAGES[0]
        try:
            return compile_once(Attempt(request, tracer, stopwatch, frame_id))
        except RestartVarying as restart_varying:
            terms = replace(terms, dynamic=terms.dynamic.with_varying(restart_varying.paths))
        except RestartWith as restart:
            terms = replace(terms, demands=replace(terms.demands, **{restart.demand: restart.allowed}))
        except AnswerWithheld as signal:
            withheld = signal.withheld
            request.family.withheld |= signal.later_too
        except OutOfDate:
            pass
        except Ahead as ahead:
            try:
                ahead.run()
            except Exception:
                breaks_at[ahead.place] = ahead.reason
        except Restart as restart_at:
            note_break(restart_at, breaks_at, request.family)
        except LeftToAutograd as error:
            request = left_to_autograd(request, error)
            options = request.options
            terms = first = first_terms(request)
        except BackendError:
            given_up = retreat(FailedGraph(tracer.graph, options.backend, terms, first))
            if given_up is None:
                raise
            terms = given_up
        finally:
            tracer.dispose()


def note_break(restart_at: Restart, breaks_at: dict[Place, breaks.Break], family: Family) -> None:
    """Note where the next trace must break, and whether later traces of the compiled function and of its resume functions must too."""
    assert restart_at.place not in breaks_at, restart_at
    breaks_at[restart_at.place] = restart_at.reason
    if isinstance(restart_at, RestartForGood):
        family.breaks_at[restart_at.place] = restart_at.reason


def first_terms(request: CompileRequest) -> TraceTerms:
    """The permissions of the first trace of a request."""
    takes, options = request.options.backend.abilities(), request.options
    first_steps, joins = takes.takes_first_steps or request.family.takes_first_steps, takes.joins_branches and options.branches is None
    return TraceTerms(request.dynamic, replace(takes, takes_first_steps=first_steps, joins_branches=joins))


def left_to_autograd(request: CompileRequest, error: LeftToAutograd) -> CompileRequest:
    """The request with the backend that leaves gradients to autograd. A warning says so, once for each function."""
    code, cause = home(request.function, request.args[0] if request.args else None), error.__cause__
    where = f"{program_name(code.co_qualname)} ({code.co_filename}:{code.co_firstlineno})"
    why = f"runs with the backend eager, for {error.backend} can't compile its graph: {type(cause).__name__}: {str(cause):.100}"
    STATISTICS.reason(f"{where} {why}")
    logs.warn_once(where, f"{where} {why}")
    return replace(request, options=replace(request.options, backend=RECORDED), left_to_autograd=why)


def compile_once(attempt: Attempt) -> tuple[Entry, FrameNote | None]:
    """Run the stages in order, once, and report the compilation. Raises Restart if the trace must be restarted."""
    tracer, modules = attempt.tracer, len(sys.modules)
    try:
        with temporarily_clear_interpreter_stack():
            planned = plan(up_to_date(trace(attempt), modules))
            if isinstance(planned, Uncompiled):
                entry = make(uncompiled_spec(planned))
            else:
                entry = make(specify(compile_planned(planned)))
                report(planned, entry)
                if planned.after_break is None:
                    attempt.request.family.withheld |= frozenset(tracer.answers.withheld)
    finally:
        tracer.graph.modes.restore()
    if "compile" in tracer.config.checks():
        verify(entry.spec.guards, Call(tuple(tracer.args), tracer.function))
    return entry, note_of(planned, entry)


def up_to_date(traced: Traced, modules: int) -> Traced:
    """Return a trace whose guards hold now. `modules`: the number of modules when it began. Raises OutOfDate if those imported since have changed what it
    had read."""
    tracer = traced.attempt.tracer
    if len(sys.modules) != modules and check_all(tracer.guards.since(0), Call(tuple(tracer.args), tracer.function)) is not None:
        raise OutOfDate
    return traced


def plan(traced: Traced) -> Planned | Uncompiled:
    """Plan what follows a trace, which has reached the end of its frame, or has stopped before."""
    stop = traced.stop
    if stop is None:
        assert traced.result is not None
        traced.attempt.tracer.answers.check_end()
        try:
            return plan_end(traced.attempt, traced.result)
        except GraphBreak as refused:
            stop = refused
    return broken.plan_break(traced.attempt, stop)


def specify(compiled: Compiled) -> EntrySpec:
    """The entry as data: its guards, the values that the guard walk fetches, and what runs in place of the frame."""
    planned = compiled.planned
    attempt, code_plan, after_break = planned.attempt, planned.plan, planned.after_break
    step: Callable[..., Any] | None = None if after_break is None else after_break.step
    resumes: tuple[CompiledFunction, ...] = () if after_break is None else after_break.resumes
    follows: Continuation | None = None
    if code_plan.trace.rerun and step is not None:
        # Where the graph raises, the first part runs uncompiled and ends the call. So it returns what is to be called: the step, or what hands the result on.
        follows, step, resumes = Continuation(step, len(resumes)), follow, (*resumes, ended())
    code, direct = emit(code_plan, compiled.fn, compiled.boxed, follows)
    attempt.stopwatch.lap("emit")
    return EntrySpec(
        guards=attempt.tracer.guards.renewed(compiled.guards),  # the backend may have imported what registers classes
        origin=attempt.request.origin,
        inputs=[described.source for described in planned.graph.inputs] if compiled.fn is not None else [],
        captures=code_plan.captures,
        outcome=compiled.errors,
        shared=True,
        files=frozenset(attempt.tracer.files),
        vouched=tuple(attempt.tracer.guards.vouched),
        of_process=attempt.tracer.guards.of_process,
        replacement=Replacement(code, compiled.fn, direct, step, resumes, None if after_break is None else after_break.broke),
    )


def uncompiled_spec(planned: Uncompiled) -> EntrySpec:
    """The entry of a frame that runs uncompiled, as data."""
    return EntrySpec(
        guards=with_shapes(planned.attempt, planned.guards),
        origin=planned.attempt.request.origin,
        reason=planned.reason,
        compiles_upcalls=planned.compiles_upcalls,
        outcome=planned.outcome,
        shared=planned.reason is not None,
    )


def report(planned: Planned, entry: Entry) -> None:
    """Count and log an entry that has just been made, and the break that it ends in."""
    function, guards = planned.attempt.tracer.function, entry.spec.guards
    planned.attempt.stopwatch.lap("guards")
    STATISTICS.add("frames")
    STATISTICS.add("guards", len(guards))
    if logs.enabled("guards"):
        logs.info("guards", f"guards of {function.__qualname__}", explain.describe(guards))
    if logs.enabled("bytecode"):
        assert entry.code is not None
        logs.info("bytecode", f"{function.__qualname__}, original", decode(function.__code__).listing())
        logs.info("bytecode", f"{function.__qualname__}, compiled", decode(entry.code).listing())
    if planned.after_break is not None:
        broken.report_break(planned, planned.after_break)


def note_of(planned: Planned | Uncompiled, entry: Entry) -> FrameNote | None:
    """The note of a compilation for reports; None if there is nothing to report."""
    attempt = planned.attempt
    function, seconds = attempt.tracer.function, attempt.stopwatch.seconds
    code = home(function, attempt.first_argument)
    where = (function.__qualname__ if code is function.__code__ else code.co_qualname, code.co_filename, code.co_firstlineno)
    if isinstance(planned, Uncompiled):
        return None if planned.reason is None else FrameNote(*where, seconds, fallback=planned.reason, fallback_stack=planned.stack)
    guards = explain.describe(entry.spec.guards).splitlines() if is_recording() else []
    broke = None if planned.after_break is None else planned.after_break.broke
    return FrameNote(*where, seconds, planned.operations, guards, broke, left_to_autograd=attempt.request.left_to_autograd)


def tell(resumed_after: BreakNote | None, note: FrameNote) -> None:
    """Record the note of a compilation. For a resume function, its number of operations is added to the note of the break before it."""
    record(note)
    if resumed_after is not None:
        if not resumed_after.after:
            logs.after_break(resumed_after, note.operations)
        resumed_after.after.append(note.operations or 0)


def verify(guards: Sequence[Guard], call: Call) -> None:
    """Check that the Python reference of the guards accepts the call that the entry was made for (FRAMEJIT_CHECK=compile).

    It may reject the call only if another thread has changed something meanwhile.
    """
    failing = check_all(guards, call)
    if failing is not None and threading.active_count() == 1:
        raise InternalError(f"a new guard rejects its own call: {explain.explain_failure([failing], call)}")


def leave(function: FunctionType, args: tuple[Any, ...], error: BaseException) -> Entry:
    """Raise an error at the place where a resume function would have continued, because it could not be compiled. So the call's own handlers see the error.

    Raises what leaves the call. If the program handles the error and returns, the result is an entry for this one call.
    """
    raises = abort.raising(function, error)
    if raises is None:
        try:
            raise error
        finally:
            del error  # its traceback leads to this frame
    result = raises(*args)
    source = Root().child(Local, Slot(0, function.__code__.co_varnames[0]))
    return make(EntrySpec([ValueIs(source, None, args[0])], replacement=Replacement(abort.returning(function.__code__, result))))


def forget() -> None:
    """Forget everything: part of `reset()`."""
    boundary.forget()


library.load()
loader.offer(loader.CompilerProper(compile_call, adopt, fate, run_uncompiled, for_one_call, leave, forget))
