"""The third stage: the backend compiles the graph to a callable, and its assumptions become guards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from framejit import logs
from framejit.backends.calling import with_check_of_backward, with_data_put_back, with_draws_put_back, without_function_modes
from framejit.backends.compile import compile_graph
from framejit.backends.eager import BACKEND as RECORDED
from framejit.backends.grad_mode import records_gradients
from framejit.backends.request import (
    BackendGuard,
    FrozenInputGuard,
    GraphRequest,
    InputInfo,
    SameTensorGuard,
    ShapeGuard,
    StorageOverlapGuard,
)
from framejit.compiler.graph_errors import GraphErrors, OperatorErrors, of_graph, of_operators
from framejit.compiler.planned import Planned
from framejit.compiler.referee import referee
from framejit.compiler.surroundings import as_the_program_has_it
from framejit.compiler.traced import Attempt
from framejit.graph.finished import GraphResult
from framejit.guards.kinds import Guard, ValueIs
from framejit.guards.relations import Same, StorageAliasing
from framejit.guards.source import Call, Source
from framejit.guards.tensor_spec import aliasing_among
from framejit.library.random.draws import drawn_from
from framejit.library.torch.autograd.partly_reached import optional_reach, partly_reached
from framejit.process.when_needed import when_needed
from framejit.quick_dataclass import dataclass
from framejit.report import STATISTICS, counted

# Only graphs whose code autograd runs later, and backends that are one node of autograd, need these.
backward_guards = when_needed("framejit.compiler.backward_guards")
undefined_gradients = when_needed("framejit.backends.undefined_gradients")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A plan with the callable of its graph, which is None if the graph isn't called.

    `boxed`: the callable takes one list of inputs, which it may empty. `errors`: handles exceptions of the graph, if it is known which operation each line of
    the graph's code belongs to.
    """

    planned: Planned
    fn: Callable[..., Any] | None
    boxed: bool
    guards: tuple[Guard, ...]
    errors: GraphErrors | OperatorErrors | None = None


def compile_planned(planned: Planned) -> Compiled:
    """Compile the plan's graph. Raises BackendError."""
    if planned.operations is None:
        return Compiled(planned, None, True, with_shapes(planned.attempt, planned.guards))
    attempt, graph = planned.attempt, planned.graph
    if logs.enabled("graph_code"):
        logs.info("graph_code", f"graph of {attempt.tracer.function.__qualname__}", graph.gm.print_readable(print_output=False))
    request = request_of(planned)
    reached = {} if request.reaches is None else request.reaches(graph.gm.graph, graph.spent)
    optional = None if request.reaches is None else optional_reach(graph.gm.graph, graph.spent)
    generators = (*([torch.default_generator] if graph.draws else []), *drawn_from(graph.gm.graph))
    errors = of_graph(graph.gm) if request.backend.runs_nodes else of_operators(graph.gm)
    with as_the_program_has_it():
        compiled = compile_graph(request)
    if compiled.kinds > 1 and request.backend.runs_nodes:
        errors = None  # a node runs in the place of others, too
    fn, trace = compiled.fn, planned.plan.trace
    if generators and trace.rerun:
        fn = with_draws_put_back(fn, generators)
    if graph.put_back and trace.rerun and not trace.only_checks:
        fn = with_data_put_back(fn, compiled.boxed, graph.put_back)
    if attempt.tracer.graph.function_modes.initial:
        fn = without_function_modes(fn, len(attempt.tracer.graph.function_modes.initial))
    if optional is not None:
        fn = undefined_gradients.with_optional_gradients(fn, compiled.boxed, optional)
    elif reached and compiled.kinds == 1:
        fn = undefined_gradients.with_undefined_gradients(fn, compiled.boxed, reached)
    if planned.later:
        fn = with_check_of_backward(fn, compiled.boxed, graph.mutated, backward_guards.BackwardGuards(planned.later))
    STATISTICS.add("graphs")
    attempt.stopwatch.lap("backend")
    if logs.enabled("backends"):
        takes = f"{counted(planned.operations or 0, 'operation')}, {counted(len(graph.inputs), 'input')}, {counted(len(planned.plan.outputs), 'output')}"
        seconds = attempt.stopwatch.seconds["backend"]
        pieces = f", as {compiled.kinds} pieces that repeat" if compiled.kinds > 1 else ""
        logs.info("backends", f"{compiled.backend} compiled {takes} of {attempt.tracer.function.__qualname__} in {seconds:.3f} s{pieces}")
    asked = [translated for guard in compiled.guards for translated in backend_guards(guard, graph)]
    return Compiled(planned, fn, compiled.boxed, with_shapes(attempt, (*planned.guards, *asked)), errors)


def with_shapes(attempt: Attempt, guards: tuple[Guard, ...]) -> tuple[Guard, ...]:
    """The guards, together with the guard on symbolic sizes and numbers, if there are any."""
    tracer = attempt.tracer
    shapes = tracer.graph.shapes.guard(Call(tuple(tracer.args), tracer.function))
    if tracer.graph.shapes.properties and "shapes" in tracer.config.checks():
        referee(shapes, tracer.graph.shapes)
    return guards if shapes is None else (*guards, shapes)


def request_of(planned: Planned) -> GraphRequest:
    """The request to the backend: the graph, and what is known about its inputs."""
    attempt, graph = planned.attempt, planned.graph
    builder, node = attempt.tracer.graph, attempt.tracer.graph.autograd_node
    backend = attempt.request.options.backend if node is None or not node.differentiated_twice else RECORDED
    request = GraphRequest(
        gm=graph.gm,
        inputs=inputs_of(graph, builder.inputs.described),
        shape_env=builder.fakes.shape_env,
        fake_mode=builder.fakes.mode,
        backend=backend,
        modes=graph.modes,
        frame_id=attempt.frame_id,
        frame_compile_id=attempt.request.origin.number,
        spent=graph.spent,
        changed=graph.mutated,
        regions=attempt.request.options.regions,
        copies=graph.copies,
    )
    records = backend.takes.one_autograd_node and records_gradients(request)
    return replace(request, reaches=partly_reached) if records else request


def inputs_of(graph: GraphResult, described: Callable[[Source], str]) -> list[InputInfo]:
    """The graph's inputs as the backend sees them, with the texts of their paths. If several have the same source name, all but the first get a number."""
    inputs: list[InputInfo] = []
    names: dict[str, int] = {}
    for each in graph.inputs:
        name = described(each.source)
        count = names[name] = names.get(name, -1) + 1
        inputs.append(
            InputInfo(
                name=each.name,
                source_name=f"{name}#{count}" if count else name,
                value=each.value,
                is_parameter=each.is_parameter,
                is_buffer=each.is_buffer,
                static=each.static,
                symbolic_context=each.symbolic,
                origin=each.source,
                is_subclass=each.kind.is_disguised,
                is_wrapper=each.kind.wraps,
                is_state=each.is_state,
            )
        )
    return inputs


def backend_guards(asked: BackendGuard, graph: GraphResult) -> list[Guard]:
    """Guards on the assumptions that the backend has made."""
    sources = [described.source for described in graph.inputs]
    if isinstance(asked, FrozenInputGuard):
        return [ValueIs(sources[asked.index], None, graph.inputs[asked.index].value)]
    if isinstance(asked, SameTensorGuard):
        return [Same(sources[asked.first], None, sources[asked.second])]
    if isinstance(asked, StorageOverlapGuard):
        indices = sorted({*asked.overlapping, *asked.separate})
        if not indices:
            return []
        groups, offsets = aliasing_among([graph.inputs[i].value for i in indices], [True] * len(indices))
        return [StorageAliasing(sources[indices[0]], None, tuple(sources[i] for i in indices), groups, offsets)]
    assert isinstance(asked, ShapeGuard)  # the ShapeEnv has it, and is asked in the end
    return []
