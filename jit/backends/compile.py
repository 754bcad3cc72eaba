"""The stage `graph -> compiled callable`: checks the request, sets up what the backend needs, calls it, and collects its guards."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from framejit.backends.calling import (
    MODE_SWITCHES,
    call_backend,
    checked,
    forget_source,
    forget_tensors,
    restoring,
    spending,
    unbox,
    with_plain,
    with_states,
    without_overrides,
)
from framejit.backends.grad_mode import begin_with_gradients, with_gradients
from framejit.backends.memory import outputs_of
from framejit.backends.request import BackendGuard, CompiledGraph, GraphRequest, InputInfo
from framejit.graph.inner import graph_modules, nodes_inside
from framejit.graph.metadata import USER_PLACES
from framejit.process.when_needed import when_needed

if TYPE_CHECKING:
    from framejit.backends.regions.pieces import Piece

# The backend eager needs none of these.
in_contexts = when_needed("framejit.backends.in_contexts")
view_geometry = when_needed("framejit.backends.view_geometry")
copied_calls = when_needed("framejit.backends.regions.copied_calls")
pieced = when_needed("framejit.backends.regions.pieced")
regions = when_needed("framejit.backends.regions.regions")


def compile_graph(request: GraphRequest) -> CompiledGraph:
    """Compile `request.gm` with `request.backend`, under the modes in which the graph will run.

    Owns `request.gm` from then on. Raises BackendError, chained to the cause, if the backend raises or returns something that cannot
    be called; ValueError for a request that breaks its own contract. KeyboardInterrupt and SystemExit pass through.
    """
    outputs = _check(request)
    backend = request.backend
    inference = backend.needs_contexts and in_contexts.take_out_inference_mode(request.gm.graph)
    if inference:
        request = replace(request, modes=replace(request.modes, inference=True, grad=False))
    switches = [node for node in nodes_inside(request.gm) if node.target in MODE_SWITCHES]
    modes = request.modes
    views = None
    if backend.needs_contexts:
        request = begin_with_gradients(request)
        views = view_geometry.take_out_views(request)
        outputs = len(outputs_of(request.gm.graph))
    guards: list[BackendGuard] = []
    pieces: Sequence[Piece] = ()
    wrappers = any(info.is_wrapper for info in request.inputs)
    with request.modes.applied(), torch._C.DisableTorchFunctionSubclass() if wrappers else contextlib.nullcontext():
        if not backend.needs_contexts:
            fn, boxed = _run_by_node(request, switches)
        else:
            pieces = regions.pieces_to_compile(request)
            compile_whole = in_contexts.compile_in_contexts
            fn, boxed, guards = pieced.compile_pieces(request, pieces, compile_whole) if pieces else compile_whole(request)
    _forget_examples(request)
    if not backend.trusted and not boxed:
        fn = checked(fn, backend.name, outputs)
    if views is not None:
        fn = views(fn)
    if request.spent:
        fn = spending(fn, request.spent)
    if request.modes is not modes:
        fn = with_gradients(fn)
    if switches:
        fn = restoring(fn, switches, modes)
    if inference:
        fn = _in_inference_mode(fn)
    kinds = len({piece.key for piece in pieces}) or 1
    return CompiledGraph(_with_inputs_of_calls(fn, boxed, request.inputs), boxed, backend.name, tuple(guards), _trains(request), kinds)


def _run_by_node(request: GraphRequest, switches: Sequence[fx.Node]) -> tuple[Callable[..., Any], bool]:
    """The callable of a graph that needs no contexts, and whether it is boxed. With the backend eager, equal calls of modules share their code."""
    backend, gm = request.backend, request.gm
    if request.copies and backend.trusted and backend.runs_nodes and request.regions is not False and not switches:
        parts = copied_calls.cut_at_copies(gm.graph, request.copies)
        if parts:
            return copied_calls.compile_parts(request, parts, lambda part: call_backend(backend, part, [])), True
    return unbox(call_backend(backend, gm, [info.value for info in request.inputs]))


def _with_inputs_of_calls(fn: Callable[..., Any], boxed: bool, inputs: Sequence[InputInfo]) -> Callable[..., Any]:
    """`fn`, which takes what a call has, and gives the graph what that has been compiled for."""
    if any(info.is_wrapper for info in inputs):
        fn = without_overrides(fn)
    if subclasses := [index for index, info in enumerate(inputs) if info.is_subclass]:
        fn = with_plain(fn, boxed, subclasses)
    if states := [index for index, info in enumerate(inputs) if info.is_state]:
        fn = with_states(fn, boxed, states)
    return fn


def _in_inference_mode(fn: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        with torch._C._InferenceMode(True):
            return fn(*args)

    return run


def _check(request: GraphRequest) -> int:
    """Check the request's contract; return the number of the graph's outputs."""
    nodes = list(request.gm.graph.nodes)
    placeholders = [node.name for node in nodes if node.op == "placeholder"]
    names = [info.name for info in request.inputs]
    if placeholders != names:
        raise ValueError(f"the graph's placeholders {placeholders} are not the inputs {names}")
    outputs = nodes[-1].args[0]
    if not isinstance(outputs, (tuple, list)):
        raise ValueError(f"the graph must return a tuple; it returns {outputs!r}")
    sources: dict[str, str] = {}
    tensors: dict[int, str] = {}
    for info in request.inputs:
        if info.source_name in sources:
            raise ValueError(f"inputs {sources[info.source_name]!r} and {info.name!r} have the same source {info.source_name}")
        sources[info.source_name] = info.name
        # AOTAutograd has a path of its own for duplicates, which works only under its own front end.
        if isinstance(info.value, torch.Tensor):
            if id(info.value) in tensors:
                raise ValueError(f"inputs {tensors[id(info.value)]!r} and {info.name!r} are the same tensor")
            tensors[id(info.value)] = info.name
    return len(outputs)


def _forget_examples(request: GraphRequest) -> None:
    """Drop data that only compiling needs: the graph may live on, and would keep the program's classes and the fake tensors alive."""
    for module in graph_modules(request.gm):
        for node in module.graph.nodes:
            if node.meta.pop("example_value", None) is not None and module is not request.gm:
                node.meta.setdefault("val", None)  # before torch 2.13, loops that are trained ask for one or the other at each call
            node.meta.pop("nn_module_stack", None)
            node.meta.pop(USER_PLACES, None)
        if module is not request.gm:
            weakref.finalize(module, forget_source, module.forward.__code__.co_filename)
    forget_tensors(request.fake_mode)


def _trains(request: GraphRequest) -> bool:
    inputs = (info.value for info in request.inputs)
    with torch._C.DisableTorchFunctionSubclass():
        return request.modes.grad and any(isinstance(value, torch.Tensor) and value.requires_grad for value in inputs)


def copy_graph(gm: fx.GraphModule) -> fx.Graph:
    """A copy of the graph to print later: only nodes, which share targets and metadata with the original, and no copies of tensors."""
    graph = fx.Graph()
    outputs = graph.graph_copy(gm.graph, {})
    graph.output(outputs)
    return graph
