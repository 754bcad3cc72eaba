"""The pipeline: one frame's call -> trace -> plan -> graph -> backend -> guards -> code -> cache entry."""

from __future__ import annotations

import contextlib
import gc
import itertools
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from framejit import boundary, breaks, interrupts, logs, looks, modules, regions, stacks
from framejit._runtime import Entry
from framejit.aside import aloud, hooks_and_profilers, silent
from framejit.backends.calling import drawing_again
from framejit.backends.compile import compile_graph
from framejit.backends.eager import BACKEND as RECORDED
from framejit.backends.registry import Backend
from framejit.backends.request import BackendGuard, FrozenInputGuard, GraphRequest, InputInfo, SameTensorGuard, StorageOverlapGuard
from framejit.bytecode import abort
from framejit.bytecode.decode import decode
from framejit.bytecode.instruction import Position
from framejit.cache import Compiler, Options
from framejit.ceval.signals import Raise
from framejit.codegen import CannotGenerate, FinishedTrace, Split, emit, plan
from framejit.codegen.again import ended, follow
from framejit.codegen.resume import Resumes, split
from framejit.directives import CURRENT, NESTED, Directives, breaks_are_errors, innermost, made_real
from framejit.effects import Logged
from framejit.errors import InternalError, Unsupported, UserFrame, program_name
from framejit.graph.builder import GraphResult
from framejit.graph.state import MODE_CHANGES
from framejit.guards import classes
from framejit.guards.build import build, check_all
from framejit.guards.explain import describe, explain_failure
from framejit.guards.global_state import global_state_guard
from framejit.guards.kinds import Distinct, Guard, Same, StorageAliasing, ValueIs
from framejit.guards.source import Call, Local, Root, Slot, Source, UserLine
from framejit.modules import ecosystem
from framejit.objects.object import NotConstant, Object
from framejit.objects.vm import Codegen
from framejit.predictions import RAISES, Prediction, predict
from framejit.recompiles import Cause
from framejit.report import STATISTICS, BreakNote, FrameNote, is_recording, place, record
from framejit.splitting import split_frames, within_reach
from framejit.stops import CallNatively, Escape, GraphBreak, Pause, Place
from framejit.tracer import Tracer

FRAMES_FOR_TRACING = 5000
"""Beyond the recursion limit in force; they must fit on the C stack of a thread, eight megabytes as a rule."""

WHOLE_FRAME = (breaks.TooLong, breaks.TooDeep, breaks.Debugger)
"""Reasons for which the whole frame runs as written, as it does where the program is about to raise."""

EXPECTED = (breaks.SkippedFrame, breaks.DidNotRaise, *RAISES)
"""Reasons that need no warning: the program asked for it, or its own exception says all."""

_numbers = itertools.count()
_lock = threading.RLock()
"""Held while a frame is compiled, by its backend too: torch's tracers patch `nn.Module` for the whole process, which no other trace may see."""


@dataclass(slots=True)
class Keep:
    """What lives as long as an entry: the graph's callable, and the guards for reports."""

    graph: Any
    guards: Sequence[Guard]
    fallback: breaks.Break | None = None
    number: int = 0
    """Of the entry, among those that its function ever had."""
    made_for: weakref.ref[Any] | None = None
    """The module that was the first argument."""
    cause: Cause | None = None
    """What the entry is put down to, if it was made although there were others."""
    shared: bool = False
    """Whether its guards say all that the entry rests on, so that it may serve other functions of the same code."""
    adopted: bool = False
    """Whether it is an entry of another function's, made once more."""
    inputs: Sequence[Source] = ()
    captures: Sequence[Source] = ()
    direct: Any = None
    """What the tree captures, and how the entry runs without a frame: to make it once more."""


@contextlib.contextmanager
def collector(enabled: bool) -> Iterator[bool]:
    """Python's garbage collector on or off inside the `with` block; gives whether it was on before.

    A trace makes hundreds of thousands of objects that nearly all stay till its end: collections in between would take a third of its
    time and find nothing. A backend is none of ours, and may run for long: there it is as the program has it.
    """
    before = gc.isenabled()
    if enabled and gc.get_freeze_count() == 0:
        # What the trace has made so far becomes old without being looked at; most of it goes by its reference counts very soon.
        gc.freeze()
        gc.unfreeze()
    (gc.enable if enabled else gc.disable)()
    try:
        yield before
    finally:
        (gc.enable if before else gc.disable)()


@dataclass(slots=True)
class Compilation:
    """One run of the pipeline. `collects`: whether the program has the garbage collector on."""

    tracer: Tracer
    compiler: Compiler
    frame_id: int
    number: int
    collects: bool
    note: FrameNote

    @property
    def options(self) -> Options:
        return self.compiler.options


def waited() -> bool:
    """Let a compilation on another thread end first, which may have made an entry that serves. Whether there was one."""
    if _lock.acquire(blocking=False):
        _lock.release()
        return False
    with _lock:
        return True


def compile_frame(function: types.FunctionType, args: Sequence[Any], compiler: Compiler, number: int) -> Entry:
    """Compile one call of a function. The entry holds replacement code, or None where the frame has to run as written.

    Raises Unsupported where tracing stops and that is an error, BackendError where the backend fails, what a signal handler raises.
    """
    code = stacks.home(function, args[0] if args else None)
    note = FrameNote(function.__qualname__ if code is function.__code__ else code.co_qualname, code.co_filename, code.co_firstlineno)
    frame_id = next(_numbers)
    entry: Entry | None = None
    natively: dict[Place, breaks.Break] = {}
    with _lock, interrupts.waiting(), deeper_recursion(), hooks_and_profilers(), silent(), collector(False) as collects:
        while entry is None:
            tracer = Tracer(function, args, compiler.options.config, compiler.changing, natively, compiler.names, compiler.options.backend.one_autograd_node)
            try:
                entry = attempt(Compilation(tracer, compiler, frame_id, number, collects, note))
            except CallNatively as needed:
                assert needed.place not in natively, needed
                natively[needed.place] = needed.reason
            finally:
                tracer.dispose()
    if entry.code is not None or note.fallback is not None:
        tell(compiler.behind, note)
    return entry


def attempt(job: Compilation) -> Entry:
    """One trace, and what comes of it. Raises CallNatively where another one is needed."""
    tracer, note = job.tracer, job.note
    try:
        result = trace(tracer)
        note.lap("trace")
        entry = finish(job, result)
    except CallNatively:
        raise
    except GraphBreak as stop:
        note.lap("trace")
        entry = go_on(job, stop)
    finally:
        tracer.modes.restore()
    if "compile" in job.options.config.checks():
        verify(entry.keep.guards, Call(tuple(tracer.args), tracer.function))
    return entry


def tell(behind: BreakNote | None, note: FrameNote) -> None:
    """Note a compilation, and what it is the rest of."""
    record(note)
    if behind is not None:
        if not behind.after:
            logs.behind_break(behind, note.operations)
        behind.after.append(note.operations or 0)


@contextlib.contextmanager
def deeper_recursion() -> Iterator[None]:
    """Room on the stack for the compiler, which takes some thirty frames where the program takes three."""
    limit = sys.getrecursionlimit()
    raised = limit + FRAMES_FOR_TRACING
    sys.setrecursionlimit(raised)
    try:
        yield
    finally:
        if sys.getrecursionlimit() == raised:
            sys.setrecursionlimit(limit)


def trace(tracer: Tracer) -> Object:
    """Run the frame symbolically. An exception that leaves it is the program's own: it runs as written, to raise it for real."""
    tracer.guards.append(global_state_guard(tracer.root_source))
    tracer.modes.enter()
    try:
        return tracer.run()
    except Raise as raised:
        entries = getattr(raised.exc, "entries", [])
        directives = getattr(raised.exc, "directives", None)
        raise Escape(raised.exc.cls, entries[::-1], tracer.directives if directives is None else directives) from None
    except NotConstant as needed:
        raise GraphBreak(breaks.UnsupportedValue(repr(needed.obj)), tracer.user_stack()) from needed


def go_on(job: Compilation, stop: GraphBreak) -> Entry:
    """Split the call where tracing stopped, as far inwards as that can be done; where it can't, the frame runs as written."""
    tracer, compiler = job.tracer, job.compiler
    stop = boundary.outside(tracer, stop)
    stop.stack = stacks.shown(stop.stack)
    call = compiler.family.number
    prediction = predict(stop, any(node.op.startswith("call") for node in tracer.graph.graph.nodes))
    refuted = None if prediction is None else compiler.family.refuted.get(prediction.key)
    errors = breaks_are_errors(tracer.directives_before, tracer.directives, call, job.options.fullgraph)
    foreign = errors is None
    whole = bool(ecosystem.asked_for_errors(tracer) if foreign else errors)
    if isinstance(stop, Escape):  # the regions that the exception has left count too
        whole = whole or bool(breaks_are_errors(tracer.directives_before, stop.directives, call, job.options.fullgraph))
    if whole and (prediction is None or refuted is not None):
        raise Unsupported(refuted or stop.reason, stop.stack)
    tracer.rest_on_directives()
    guards = list(tracer.guards)
    if refuted is not None:
        return fall_back(job, refuted, stop.stack, guards)
    if prediction is not None and (prediction.certain or whole):
        return fall_back(job, stop.reason, stop.stack, guards, replace(prediction, whole=whole))
    if not isinstance(stop.reason, WHOLE_FRAME):
        reach = within_reach(looks.to_split(stop))
        if innermost(tracer.directives, NESTED) is False:
            # The outermost frame of the program: not the wrapper that a decorator of ours has put around it.
            del reach[1 + next((i for i, frame in enumerate(reach) if frame.code.co_filename != regions.__file__), 0) :]
        broke = BreakNote(stop.reason, tuple(stop.stack))
        while reach:
            try:
                pauses = isinstance(stop, Pause) and reach[-1] is stop.frames[-1]
                planned = split(split_frames(tracer, reach, pauses), compiler.resumes)
                following = tuple(compiler.resume_function(resume, broke) for resume in planned.resumes)
                for resume, found, names in zip(following, planned.found, planned.names, strict=True):
                    resume.compile_callback.inherit(compiler.changing, found)
                    resume.compile_callback.names = names
                if foreign:
                    ecosystem.asked_for_errors(tracer)  # once more, for its guard: the trace has gone back
                entry = finish(job, planned.state, planned.step, following)
            except CallNatively:
                raise
            except (CannotGenerate, GraphBreak) as refused:
                logs.info("resume", f"not split in {reach[-1].code.co_qualname}: {refused}")
                reach.pop()
                continue
            STATISTICS.add("graph_breaks")
            STATISTICS.reason(f"{stop.reason}{at(stop.stack)}")
            broke.before = job.note.operations or 0
            job.note.broke = broke
            logs.graph_break(broke)
            log_resumes(tracer.function, following)
            return entry
    return fall_back(job, stop.reason, stop.stack, guards)


def log_resumes(function: types.FunctionType, resumes: Sequence[Any]) -> None:
    """The resume functions that a split chooses from."""
    if logs.enabled("resume"):
        for resume in resumes:
            code = resume.function.__code__
            listing = decode(code).listing() if logs.enabled("resume", detail=True) else ""
            logs.info("resume", f"{function.__qualname__} goes on in {code.co_name}", listing)


def finish(job: Compilation, result: Object, step: types.FunctionType | None = None, resumes: tuple[Any, ...] = ()) -> Entry:
    """From the end of a trace, or from where it is split, to the entry."""
    tracer, options, note = job.tracer, job.options, job.note
    function = tracer.function
    position = tracer.root_position()
    here = [UserFrame.of(function.__code__, position)]
    if step is None and tracer.modes.inference_open:
        raise GraphBreak(breaks.GlobalStateUnsupported("an inference mode that was entered is still in force at the return"), here)
    change = tracer.modes.final_difference()
    if change is not None:
        tracer.effects.at_end(change)
    left = tracer.directives
    if step is not None:
        left = made_real(tracer.directives_before, left, job.compiler.family.number)
    if left != tracer.directives_before:
        tracer.rest_on_directives()
        tracer.effects.at_end(DirectivesChange(left))
    tracer.find_variables()
    try:
        planned = plan(FinishedTrace(result, tracer.effects, function.__code__, False, position, position, tracer.held_arguments()))
    except CannotGenerate as refused:
        raise GraphBreak(refused.reason, here) from refused
    except NotConstant as needed:
        raise GraphBreak(breaks.CannotReconstruct(repr(needed.obj)), here) from needed
    tracer.check_generators()
    planned.outputs += tracer.graph.unused_under_handlers(planned.outputs)
    planned.outputs += tracer.graph.unused_draws(planned.outputs)
    graph = tracer.graph.finish(planned.outputs, debug="compile" in options.config.checks())
    if graph.has_effects:
        planned.trace = replace(planned.trace, graph_needed=True)
    place = graph.place
    if place is not None and (place.filename, place.function) == (function.__code__.co_filename, program_name(function.__code__.co_qualname)):
        called_at = Position(place.lineno, place.end_lineno, place.col_offset, place.end_col_offset)
        planned.trace = replace(planned.trace, call_position=called_at)
    guard_aliasing(tracer)
    if logs.enabled("effects"):
        logs.info("effects", f"effects of {function.__qualname__}", "\n".join(map(describe_effect, tracer.effects.order())) or "none")
    note.lap("plan")
    note.operations = None
    fn, boxed, guards = None, True, tracer.guards
    record = job.compiler.called_natively
    if record is not None:
        record.note(planned.needs_graph, ends=step is None)
        if not planned.needs_graph and step is None and job.compiler.behind is None:
            return entry_as_written(guards, None)
    if planned.needs_graph:
        if logs.enabled("graph_code"):
            logs.info("graph_code", f"graph of {function.__qualname__}", graph.gm.print_readable(print_output=False))
        note.operations = count_operations(graph)
        node = tracer.graph.autograd_node
        backend = options.backend if node is None or not node.differentiated_twice else RECORDED
        request = request_of(tracer, graph, backend, job.frame_id, job.number)
        with collector(job.collects), interrupts.at_once(), aloud():
            compiled = compile_graph(request)
        fn, boxed = compiled.fn, compiled.boxed
        if tracer.handled and graph.repeatable:
            fn = drawing_again(fn)
            planned.run_again_from(tracer.call_sources())
        guards = [*guards, *(translated for asked in compiled.guards for translated in backend_guards(asked, graph))]
        STATISTICS.add("graphs")
        note.lap("backend")
        if logs.enabled("backends"):
            takes = f"{note.operations} operations, {len(graph.inputs)} inputs, {len(planned.outputs)} outputs"
            logs.info("backends", f"{compiled.backend} compiled {takes} of {function.__qualname__} in {note.seconds['backend']:.3f} s")
    inputs = [described.source for described in graph.inputs] if planned.needs_graph else []
    built = build(guards, inputs, planned.captures)
    note.lap("guards")
    then: Split | None = None
    follows: Callable[..., Any] | None = step
    if planned.trace.again and step is not None:
        then, follows, resumes = Split(step, len(resumes)), follow, (*resumes, ended())
    code, direct = emit(planned, fn, boxed, then)
    note.lap("emit")
    if is_recording():
        note.guards = describe(built.guards).splitlines()
    STATISTICS.add("frames")
    STATISTICS.add("guards", len(built.guards))
    if logs.enabled("guards"):
        logs.info("guards", f"guards of {function.__qualname__}", describe(built.guards))
    if logs.enabled("bytecode"):
        logs.info("bytecode", f"{function.__qualname__} as written", decode(function.__code__).listing())
        logs.info("bytecode", f"{function.__qualname__} as compiled", decode(code).listing())
    keep = Keep(fn, built.guards, shared=True, inputs=inputs, captures=planned.captures, direct=direct)
    return Entry(code, built.tree, len(inputs), keep, follows, resumes, direct)


def with_own_tree(entry: Entry) -> Entry:
    """An entry with a guard tree of its own, for another function that shares its code: a tree is fast while what it has found stays."""
    keep = entry.keep
    try:
        built = build(keep.guards, keep.inputs, keep.captures)
    except ValueError:
        return entry  # something that it compares with is going: the entry will not last
    # The garbage collector looks into a code object only where the entry is its one owner.
    code = None if entry.code is None else entry.code.replace()
    kept = replace(keep, guards=built.guards, adopted=True)
    resumes, outcome = entry.resumes or (), entry.outcome
    return Entry(code, built.tree, entry.n_inputs, kept, entry.step, resumes, keep.direct, watched=entry.watched, outcome=outcome)


def verify(guards: Sequence[Guard], call: Call) -> None:
    """The Python reference must accept the call that the entry was made for (FRAMEJIT_CHECK), unless another thread has changed something."""
    failing = check_all(guards, call)
    if failing is not None and threading.active_count() == 1:
        raise InternalError(f"a new guard rejects its own call: {explain_failure([failing], call)}")


def guard_aliasing(tracer: Tracer) -> None:
    """A value from outside that the trace changes must be none of the other values it has looked at."""
    observed = tracer.shared_values()
    for logged in tracer.effects.order():
        obj = logged.effect
        if not isinstance(obj, Object) or obj.source is None:
            continue
        others = tuple(other.source for other in observed if other is not obj and other.cls is obj.cls and other.source is not None)
        if others:
            code, position = stacks.home(tracer.function, next(iter(tracer.args), None)), logged.position
            if code is not tracer.function.__code__:
                position = Position(None, None, None, None)
            columns = (position.end_lineno, position.column, position.end_column)
            line = UserLine(code.co_filename, position.lineno or code.co_firstlineno, program_name(code.co_qualname), columns)
            tracer.guards.append(Distinct(obj.source, line, others))


def request_of(tracer: Tracer, graph: GraphResult, backend: Backend, frame_id: int, number: int) -> GraphRequest:
    """What the backend stage needs."""
    inputs = [
        InputInfo(
            name=described.name,
            source_name=described.source.describe(),
            value=described.tensor,
            is_parameter=described.is_parameter,
            is_buffer=described.is_buffer,
            static=described.static,
            origin=described.source,
        )
        for described in graph.inputs
    ]
    names: dict[str, int] = {}
    for index, info in enumerate(inputs):
        count = names[info.source_name] = names.get(info.source_name, -1) + 1
        if count:
            inputs[index] = InputInfo(**{f: getattr(info, f) for f in info.__slots__} | {"source_name": f"{info.source_name}#{count}"})
    with graph.modes.applied():
        return GraphRequest(
            gm=graph.gm,
            inputs=inputs,
            shape_env=tracer.graph.shape_env,
            fake_mode=tracer.graph.fake_mode,
            backend=backend,
            frame_id=frame_id,
            frame_compile_id=number,
        )


def backend_guards(asked: BackendGuard, graph: GraphResult) -> list[Guard]:
    """What the backend relies upon, as guards of ours."""
    sources = [described.source for described in graph.inputs]
    if isinstance(asked, FrozenInputGuard):
        return [ValueIs(sources[asked.index], None, graph.inputs[asked.index].tensor)]
    if isinstance(asked, SameTensorGuard):
        return [Same(sources[asked.first], None, sources[asked.second])]
    if isinstance(asked, StorageOverlapGuard):
        indices = sorted({*asked.overlapping, *asked.separate})
        if not indices:
            return []
        groups: dict[int, int] = {}
        tensors = [graph.inputs[i].tensor for i in indices]
        numbers = tuple(groups.setdefault(t.untyped_storage()._cdata, len(groups)) for t in tensors)
        offsets = tuple(t.storage_offset() for t in tensors)
        return [StorageAliasing(sources[indices[0]], None, tuple(sources[i] for i in indices), numbers, offsets)]
    raise InternalError(f"a guard on symbolic shapes from a static graph: {asked}")


def count_operations(graph: GraphResult) -> int:
    """Operators in the graph; switches of modes are none."""
    return sum(node.op in ("call_function", "call_method") and node.target not in MODE_CHANGES for node in graph.gm.graph.nodes)


def describe_effect(logged: Logged) -> str:
    """An effect in a line, for the log."""
    effect = logged.effect
    where = "" if logged.position.lineno is None else f"  # line {logged.position.lineno}"
    if isinstance(effect, Object) and effect.source is not None:
        return f"{effect.source.told()}, a {classes.qualname(effect.cls)}, is changed{where}"
    return f"{type(effect).__name__}{where}"


@dataclass(frozen=True, slots=True)
class DirectivesChange:
    """The effect of leaving the trace with other directives in force than it began with."""

    after: Directives

    def replay(self, cg: Codegen) -> None:
        """Emit the call that puts them in force."""
        cg.load_const(self.after)
        cg.call_const(CURRENT.set, 1)
        cg.pop_top()

    def referents(self) -> list[Object]:
        return []


def fall_back(
    job: Compilation, reason: breaks.Break, stack: Sequence[UserFrame], guards: Sequence[Guard], prediction: Prediction | None = None
) -> Entry:
    """An entry that runs the frame as written, for calls that would make tracing stop at the same place for the same reason."""
    watched = not isinstance(reason, (*RAISES, breaks.DidNotRaise))
    if job.compiler.called_natively is not None and job.compiler.behind is None and isinstance(reason, EXPECTED):
        return entry_as_written(guards, None, watched, prediction)  # it would run as written anyway: nothing to report
    STATISTICS.add("fallbacks")
    STATISTICS.reason(f"{reason}{at(stack)}")
    if watched:
        STATISTICS.add("graph_breaks")
    job.note.operations, job.note.fallback, job.note.fallback_stack = None, reason, tuple(stack)
    logs.fallback(stacks.home(job.tracer.function, next(iter(job.tracer.args), None)), reason, stack, expected=isinstance(reason, EXPECTED))
    return entry_as_written(guards, reason, watched, prediction)


def at(stack: Sequence[UserFrame]) -> str:
    """Where it happened, for the end of a sentence."""
    return f" at {place(stack)}" if stack else ""


def entry_as_written(
    guards: Sequence[Guard], reason: breaks.Break | None, watched: bool = False, prediction: Prediction | None = None
) -> Entry:
    """An entry that runs the frame as written for the calls that the guards accept. `watched`: what it calls may be compiled."""
    built = build(guards, [], [])
    return Entry(None, built.tree, 0, Keep(None, built.guards, reason, shared=reason is not None), watched=watched, outcome=prediction)


def leave(function: types.FunctionType, args: tuple[Any, ...], error: BaseException) -> Entry:
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
    built = build([ValueIs(source, None, args[0])], [], [])
    return Entry(abort.returning(function.__code__, result), built.tree, 0, Keep(None, built.guards))


def forget() -> None:
    """Begin anew: part of `reset()`."""
    boundary.forget()


modules.load()
__all__ = ["Keep", "Resumes", "compile_frame", "explain_failure", "forget", "leave", "with_own_tree", "waited"]
