"""The pipeline: one frame's call -> trace -> plan -> graph -> backend -> guards -> code -> cache entry."""

from __future__ import annotations

import contextlib
import gc
import itertools
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from framejit import breaks, logs, modules
from framejit._runtime import Entry
from framejit.backends.compile import compile_graph
from framejit.backends.registry import Backend
from framejit.backends.request import BackendGuard, FrozenInputGuard, GraphRequest, InputInfo, SameTensorGuard, StorageOverlapGuard
from framejit.bytecode.decode import decode
from framejit.cache import Compiler, Options
from framejit.ceval.signals import Raise
from framejit.codegen import CannotGenerate, FinishedTrace, emit, plan
from framejit.codegen.resume import Resumes, split
from framejit.errors import InternalError, Unsupported, UserFrame
from framejit.graph.builder import GraphResult
from framejit.graph.fake import quiet
from framejit.guards.build import build, check_all
from framejit.guards.explain import describe, explain_failure
from framejit.guards.global_state import function_modes, global_state_guard
from framejit.guards.kinds import Distinct, Guard, Same, StorageAliasing, ValueIs
from framejit.guards.source import Call
from framejit.objects.object import NotConstant, Object
from framejit.report import STATISTICS
from framejit.tracer import GraphBreak, Tracer

FRAMES_FOR_TRACING = 5000
"""Beyond the recursion limit in force; they must fit on the C stack of a thread, eight megabytes as a rule."""

WHOLE_FRAME = (breaks.ExceptionEscapes, breaks.OperatorRaises, breaks.TooLong, breaks.TooDeep)
"""Reasons for which the whole frame runs as written: the program is about to raise, or the trace has no end."""

_numbers = itertools.count()
_lock = threading.RLock()


@dataclass(slots=True)
class Keep:
    """What lives as long as an entry: the graph's callable, and the guards for reports."""

    graph: Any
    guards: Sequence[Guard]
    fallback: breaks.Break | None = None


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


def compile_frame(function: types.FunctionType, args: Sequence[Any], compiler: Compiler, number: int) -> Entry:
    """Compile one call of a function. The entry holds replacement code, or None where the frame has to run as written.

    Raises Unsupported where tracing stops and `options.fullgraph` is set, BackendError where the backend fails.
    """
    options = compiler.options
    frame_id = next(_numbers)
    with _lock, deeper_recursion(), quiet(), collector(False) as collects:
        tracer = Tracer(function, args, options.config)
        try:
            try:
                result = trace(tracer)
                entry = finish(tracer, result, options, frame_id, number, collects)
            except GraphBreak as stop:
                entry = go_on(tracer, stop, compiler, frame_id, number, collects)
            finally:
                tracer.modes.restore()
            if options.config.verify:
                verify(entry.keep.guards, Call(tuple(tracer.args), function))
            return entry
        finally:
            tracer.dispose()


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
    if any(mode.device is None for mode in function_modes()):
        here = UserFrame.of(tracer.function.__code__, None)
        raise GraphBreak(breaks.GlobalStateUnsupported("a TorchFunctionMode in force at the call"), [here])
    tracer.modes.enter()
    try:
        return tracer.run()
    except Raise as raised:
        entries = getattr(raised.exc, "entries", [])
        raise GraphBreak(breaks.ExceptionEscapes(raised.exc.cls.__qualname__), entries[::-1]) from None
    except NotConstant as needed:
        raise GraphBreak(breaks.UnsupportedValue(repr(needed.obj)), tracer.user_stack()) from needed


def go_on(tracer: Tracer, stop: GraphBreak, compiler: Compiler, frame_id: int, number: int, collects: bool) -> Entry:
    """Split the call where tracing stopped, as far inwards as that can be done; where it can't, the frame runs as written."""
    options, guards = compiler.options, list(tracer.guards)
    if not options.fullgraph and not isinstance(stop.reason, WHOLE_FRAME):
        reach = tracer.within_reach(stop.frames)
        while reach:
            try:
                planned = split(tracer.split_frames(reach), compiler.resumes)
                following = tuple(compiler.resume_function(resume) for resume in planned.resumes)
                entry = finish(tracer, planned.state, options, frame_id, number, collects, planned.step, following)
            except (CannotGenerate, GraphBreak) as refused:
                logs.info("graph_breaks", f"not split in {reach[-1].code.co_qualname}: {refused}")
                reach.pop()
                continue
            STATISTICS.add("graph_breaks")
            STATISTICS.reason(f"{stop.reason}{place(stop.stack)}")
            logs.graph_break(stop.reason, stop.stack)
            return entry
    tracer.guards = guards
    return fall_back(tracer, options, stop.reason, stop.stack)


def finish(
    tracer: Tracer,
    result: Object,
    options: Options,
    frame_id: int,
    number: int,
    collects: bool,
    step: types.FunctionType | None = None,
    resumes: tuple[Any, ...] = (),
) -> Entry:
    """From the end of a trace to the entry. `collects`: whether the program has the garbage collector on."""
    function = tracer.function
    change = tracer.modes.final_difference()
    if change is not None:
        tracer.effects.at_end(change)
    position = tracer.root_position()
    root = tracer.root
    assert root is not None
    here = [UserFrame.of(function.__code__, position)]
    if tracer.modes.scopes_open:
        raise GraphBreak(breaks.GlobalStateUnsupported("a mode that was entered is still in force at the return"), here)
    try:
        planned = plan(
            FinishedTrace(result, tracer.effects, function.__code__, False, position, tracer.first_position or position)
        )
    except CannotGenerate as refused:
        raise GraphBreak(refused.reason, here) from refused
    except NotConstant as needed:
        raise GraphBreak(breaks.CannotReconstruct(repr(needed.obj)), here) from needed
    graph = tracer.graph.finish(planned.outputs, debug=options.config.verify)
    if graph.has_effects:
        planned.trace = replace(planned.trace, graph_needed=True)
    guard_aliasing(tracer)
    fn, boxed, guards = None, True, tracer.guards
    if planned.needs_graph:
        if logs.enabled("graph_code"):
            logs.info("graph_code", f"graph of {function.__qualname__}", graph.gm.print_readable(print_output=False))
        request = request_of(tracer, graph, options.backend, frame_id, number)
        with collector(collects):
            compiled = compile_graph(request)
        fn, boxed = compiled.fn, compiled.boxed
        guards = [*guards, *(translated for asked in compiled.guards for translated in backend_guards(asked, graph))]
        STATISTICS.add("graphs")
    inputs = [described.source for described in graph.inputs] if planned.needs_graph else []
    built = build(guards, inputs, planned.captures)
    code = emit(planned, fn, boxed)
    STATISTICS.add("frames")
    STATISTICS.add("guards", len(built.guards))
    if logs.enabled("guards"):
        logs.info("guards", f"guards of {function.__qualname__}", describe(built.guards))
    if logs.enabled("bytecode"):
        logs.info("bytecode", f"{function.__qualname__} as written", decode(function.__code__).listing())
        logs.info("bytecode", f"{function.__qualname__} as compiled", decode(code).listing())
    return Entry(code, built.tree, len(inputs), Keep(fn, built.guards), step, resumes)


def verify(guards: Sequence[Guard], call: Call) -> None:
    """The Python reference and the native tree must both accept the call that the entry was made for (FRAMEJIT_VERIFY)."""
    failing = check_all(guards, call)
    if failing is not None:
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
            tracer.guards.append(Distinct(obj.source, None, others))


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


def fall_back(tracer: Tracer, options: Options, reason: breaks.Break, stack: list[UserFrame]) -> Entry:
    """An entry that runs the frame as written, for calls that would make tracing stop at the same place for the same reason."""
    raises = isinstance(reason, (breaks.ExceptionEscapes, breaks.OperatorRaises))
    if options.fullgraph and not raises:
        raise Unsupported(reason, stack)
    STATISTICS.add("fallbacks")
    STATISTICS.reason(f"{reason}{place(stack)}")
    if raises:
        logs.info("graph_breaks", f"{tracer.function.__qualname__} runs as written, and probably raises: {reason}{place(stack)}")
    else:
        STATISTICS.add("graph_breaks")
        logs.fallback(tracer.function.__code__, reason, stack)
    return entry_as_written(tracer.guards, reason)


def place(stack: Sequence[UserFrame]) -> str:
    """Where it happened, for the end of a sentence."""
    return f" at {stack[-1].filename}:{stack[-1].lineno}" if stack else ""


def entry_as_written(guards: Sequence[Guard], reason: breaks.Break | None) -> Entry:
    """An entry that runs the frame as written for the calls that the guards accept."""
    built = build(guards, [], [])
    return Entry(None, built.tree, 0, Keep(None, built.guards, reason))


modules.load()
__all__ = ["Keep", "Resumes", "compile_frame", "explain_failure"]
