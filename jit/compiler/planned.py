"""The second stage: plans the values that are built at the end of a trace, or where it is split, and finishes the graph that they need."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from types import FunctionType

from framejit import breaks, logs
from framejit._runtime import CompiledFunction
from framejit.bytecode.instruction import Position
from framejit.codegen import CannotGenerate, FinishedTrace, Plan, plan
from framejit.compiler.counters import check_counters
from framejit.compiler.traced import Attempt
from framejit.driver.compiled_module import home
from framejit.driver.prediction import OutcomeCheck
from framejit.effects import Logged
from framejit.errors import UserFrame, program_name
from framejit.graph.finished import GraphResult
from framejit.guards.kinds import Guard, ItemsEmpty
from framejit.guards.relations import Distinct
from framejit.guards.source import Item, Source, UserLine
from framejit.library.python.threading import check_locks
from framejit.library.torch.inner_graphs.changes import check_read_later, guards_of_backwards, left_by
from framejit.objects.core.latercall import LaterCall
from framejit.objects.core.object import NotConstant, Object
from framejit.program import classes
from framejit.quick_dataclass import dataclass
from framejit.report import BreakNote
from framejit.said.directives import CURRENT, made_real
from framejit.torch_state.torch_modes import MODE_CHANGES
from framejit.tracing.stops import GraphBreak
from framejit.tracing.tracer import Tracer


@dataclass(frozen=True, slots=True)
class AfterBreak:
    """The continuation of a split call: the step runs the instruction at the break and chooses one of the resume functions. `broke`: the break, for reports."""

    step: FunctionType
    resumes: tuple[CompiledFunction, ...]
    broke: BreakNote


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan of the replacement code.

    `after_break`: how the call continues, if it is split. `operations`: the number of operations in the graph; None if the graph isn't called. `later`: guards
    of a backward pass of the graph.
    """

    attempt: Attempt
    plan: Plan
    graph: GraphResult
    guards: tuple[Guard, ...]
    operations: int | None
    after_break: AfterBreak | None
    later: tuple[Guard, ...]


@dataclass(frozen=True, slots=True)
class Uncompiled:
    """The plan for a frame that runs uncompiled, in all calls that the guards accept.

    `reason`, `stack`: why it runs uncompiled, and where tracing stopped, if that is reported. `compiles_upcalls`: the functions that it calls may be compiled.
    `outcome`: checks how the call ends.
    """

    attempt: Attempt
    guards: tuple[Guard, ...]
    reason: breaks.Break | None = None
    compiles_upcalls: bool = False
    outcome: OutcomeCheck | None = None
    stack: tuple[UserFrame, ...] = ()


def plan_end(attempt: Attempt, result: Object, after_break: AfterBreak | None = None) -> Planned | Uncompiled:
    """Plan how to build the result, which is the value that the frame returns, or the state of a call that is split.

    Raises GraphBreak if the result can't be built, and Restart if the trace must be restarted.
    """
    tracer = attempt.tracer
    reject_open_inference_mode(tracer, after_break)
    announce_settings(attempt, after_break)
    planned = plan_code(tracer, result)
    tracer.check_generators()
    check_counters(attempt)
    left = left_by(tracer, planned.outputs)
    check_read_later(tracer, left, None if after_break is None else result)
    later = guards_of_backwards(tracer, left)
    planned = replace(planned, outputs=with_what_must_run(tracer, planned.outputs))
    graph = tracer.graph.finish(planned.outputs, debug="compile" in tracer.config.checks())
    planned = with_graph(tracer, planned, graph)
    guard_aliasing(attempt)
    log_effects(tracer)
    attempt.stopwatch.lap("plan")
    use = attempt.request.upcall_use
    if use is not None:
        use.note(planned.needs_graph, ends=after_break is None)
        if not planned.needs_graph and after_break is None and attempt.request.resumed_after is None:
            return Uncompiled(attempt, tracer.guards.all())
    return Planned(attempt, planned, graph, tracer.guards.all(), count_operations(graph) if planned.needs_graph else None, after_break, later)


def here(tracer: Tracer) -> list[UserFrame]:
    """The place that the traced frame has reached."""
    return [UserFrame.of(tracer.function.__code__, tracer.root_position())]


def reject_open_inference_mode(tracer: Tracer, after_break: AfterBreak | None) -> None:
    """Raise GraphBreak if the frame returns inside an inference mode that it has entered."""
    if after_break is None and tracer.graph.modes.inference_open:
        raise GraphBreak(breaks.GlobalStateUnsupported("an inference mode that was entered is still in force at the return"), here(tracer))


def announce_settings(attempt: Attempt, after_break: AfterBreak | None) -> None:
    """Make the replacement code put torch's modes and framejit's directives into the state in which they are at the end of the trace."""
    tracer = attempt.tracer
    modes = tracer.graph.modes
    casts_are_cached = tracer.graph.autograd_node is None
    changed = modes.final_differences(casts_are_cached), modes.switches.final_differences(), tracer.graph.function_modes.final_differences()
    for change in itertools.chain(*changed):
        tracer.effects.at_end(change)
    left = tracer.directives
    if after_break is not None:
        left = made_real(tracer.directives_before, left, attempt.request.family.number)
    if left != tracer.directives_before:
        tracer.rest_on_directives()
        tracer.effects.at_end(LaterCall(CURRENT.set, (left,)))


def plan_code(tracer: Tracer, result: Object) -> Plan:
    """Plan the replacement code. Raises GraphBreak if a value can't be built."""
    position = tracer.root_position()
    finished = FinishedTrace(result, tracer.effects, tracer.function.__code__, False, position, position, tracer.held_arguments())
    try:
        return plan(finished)
    except CannotGenerate as refused:
        raise GraphBreak(refused.reason, here(tracer)) from refused
    except NotConstant as needed:
        raise GraphBreak(breaks.CannotReconstruct(repr(needed.obj)), here(tracer)) from needed


def with_what_must_run(tracer: Tracer, outputs: Sequence[object]) -> list[object]:
    """The outputs, together with nodes that must run although nothing needs their results."""
    known = [*outputs]
    known += tracer.graph.unused_under_handlers(known)
    known += tracer.graph.unused_draws(known)
    known += tracer.graph.counts_of_records(known)
    return known


def with_graph(tracer: Tracer, planned: Plan, graph: GraphResult) -> Plan:
    """The plan, completed with facts about the finished graph: whether it must run, where it is called, and what happens if it raises."""
    code, finished, place = tracer.function.__code__, planned.trace, graph.place
    if graph.has_effects:
        finished = replace(finished, graph_needed=True)
    if place is not None and (place.filename, place.function) == (code.co_filename, program_name(code.co_qualname)):
        called_at = Position(place.lineno, place.end_lineno, place.col_offset, place.end_col_offset)
        finished = replace(finished, call_position=called_at)
    planned = replace(planned, trace=finished)
    checked = tracer.graph.unbacked.checked
    for check in graph.late_checks:
        if check in checked:
            tracer.restart(*checked[check])  # it is made natively: what the graph has changed when it raises may not be changed back
    check_locks(tracer, graph)
    if planned.needs_graph and ((tracer.handled and graph.repeatable) or checked):
        is_repeatable = graph.repeatable and (tracer.handled or not graph.put_back)  # without a handler, copies in each call aren't worth it
        return planned.rerun_from(tracer.call_sources(), only_checks=not is_repeatable)
    return planned


def guard_aliasing(attempt: Attempt) -> None:
    """Guard that a value from outside which the trace changes isn't one of the other values that the trace has looked at."""
    tracer = attempt.tracer
    observed = tracer.shared_values()
    for logged in tracer.effects.order():
        obj = logged.effect
        if not isinstance(obj, Object) or obj.source is None:
            continue
        others = tuple(other.source for other in observed if other.source not in (None, obj.source) and other.cls is obj.cls)
        if obj.cls is OrderedDict:
            others += others_found_empty(tracer, obj.value)
        if others:
            tracer.guards.add(Distinct(obj.source, line_of(attempt, logged.position), others))


def others_found_empty(tracer: Tracer, value: object) -> tuple[Source, ...]:
    """The paths to OrderedDicts of which the trace only knows that they are empty, and that aren't this value."""
    paths = {guard.source.child(Item, name): None for guard in tracer.guards.since(0) if isinstance(guard, ItemsEmpty) for name in guard.names}
    return tuple([source for source in paths if source.fetch(tracer.call) is not value])


def line_of(attempt: Attempt, position: Position) -> UserLine:
    """The line of a place in the traced frame, for guards."""
    function = attempt.tracer.function
    code = home(function, attempt.first_argument)
    if code is not function.__code__:
        position = Position(None, None, None, None)
    columns = (position.end_lineno, position.column, position.end_column)
    return UserLine(code.co_filename, position.lineno or code.co_firstlineno, program_name(code.co_qualname), columns)


def count_operations(graph: GraphResult) -> int:
    """The number of operators in the graph. Nodes that switch modes don't count."""
    return sum(node.op in ("call_function", "call_method") and node.target not in MODE_CHANGES for node in graph.gm.graph.nodes)


def log_effects(tracer: Tracer) -> None:
    """Log the changes that the replacement code makes to outside values."""
    if logs.enabled("effects"):
        text = "\n".join(map(describe_effect, tracer.effects.order())) or "none"
        logs.info("effects", f"effects of {tracer.function.__qualname__}", text)


def describe_effect(logged: Logged) -> str:
    """A line of the log about one effect."""
    effect = logged.effect
    where = "" if logged.position.lineno is None else f"  # line {logged.position.lineno}"
    if isinstance(effect, Object) and effect.source is not None:
        return f"{effect.source.name_in_reports()}, a {classes.qualname(effect.cls)}, is changed{where}"
    return f"{effect}{where}" if isinstance(effect, LaterCall) else f"{type(effect).__name__}{where}"
