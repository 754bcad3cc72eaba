"""The stage `graph -> compiled callable`: checks the request, sets up what the backend needs, calls it, and collects its guards."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch._functorch import config as functorch_config
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.grad_mode import _enter_inference_mode, _exit_inference_mode
from torch.fx._lazy_graph_module import _LazyGraphModule

from framejit.backends.calling import (
    MODE_SWITCHES,
    checked,
    dropping,
    forget_source,
    restoring,
    spending,
    unbox,
    with_plain,
    with_states,
    without_overrides,
)
from framejit.backends.contexts import annotate, backend_contexts, example_inputs, share_memory
from framejit.backends.ecosystem import patch_preserve_rng_state
from framejit.backends.floats import take_out
from framejit.backends.freezing import Frozen, freeze
from framejit.backends.grad_mode import begin_with_gradients, detach_views, with_gradients
from framejit.backends.left_to_autograd import LeftToAutograd, cause_of
from framejit.backends.memory import outputs_of
from framejit.backends.order_in_memory import keep_order
from framejit.backends.regions.pieced import compile_pieces
from framejit.backends.regions.pieces import Piece
from framejit.backends.regions.regions import pieces_to_compile
from framejit.backends.registry import Backend
from framejit.backends.request import BackendGuard, CompiledGraph, FrozenInputGuard, GraphRequest, InputInfo
from framejit.backends.view_geometry import take_out_views
from framejit.errors import BackendError, FramejitError
from framejit.graph.inner import graph_modules, nodes_inside
from framejit.graph.metadata import USER_PLACES
from framejit.process import underway
from framejit.torch_state.torch_classes import is_distributed
from framejit.torch_state.torch_modes import MODE_CHANGES

BACKWARD_AUTOCAST = {"backward_pass_autocast": "off"} if hasattr(functorch_config, "backward_pass_autocast") else {}
"""AOTAutograd's setting for autocast in backward passes: off, as in eager if a backward pass runs outside of it. Otherwise they would be compiled under the
autocast in which the graph begins, and would use its dtype for operators that the forward pass runs outside of autocast."""


def compile_graph(request: GraphRequest) -> CompiledGraph:
    """Compile `request.gm` with `request.backend`, under the modes in which the graph will run.

    Owns `request.gm` from then on. Raises BackendError, chained to the cause, if the backend raises or returns something that cannot
    be called; ValueError for a request that breaks its own contract. KeyboardInterrupt and SystemExit pass through.
    """
    outputs = _check(request)
    backend = request.backend
    inference = backend.needs_contexts and _take_out_inference_mode(request.gm.graph)
    if inference:
        request = replace(request, modes=replace(request.modes, inference=True, grad=False))
    switches = [node for node in nodes_inside(request.gm) if node.target in MODE_SWITCHES]
    modes = request.modes
    views = None
    if backend.needs_contexts:
        request = begin_with_gradients(request)
        views = take_out_views(request)
        outputs = len(outputs_of(request.gm.graph))
    guards: list[BackendGuard] = []
    pieces: Sequence[Piece] = ()
    wrappers = any(info.is_wrapper for info in request.inputs)
    with request.modes.applied(), torch._C.DisableTorchFunctionSubclass() if wrappers else contextlib.nullcontext():
        if not backend.needs_contexts:
            fn, boxed = unbox(_call_backend(backend, request.gm, [info.value for info in request.inputs]))
        else:
            pieces = pieces_to_compile(request)
            fn, boxed, guards = compile_pieces(request, pieces, _compile_in_contexts) if pieces else _compile_in_contexts(request)
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


def _with_inputs_of_calls(fn: Callable[..., Any], boxed: bool, inputs: Sequence[InputInfo]) -> Callable[..., Any]:
    """`fn`, which takes what a call has, and gives the graph what that has been compiled for."""
    if any(info.is_wrapper for info in inputs):
        fn = without_overrides(fn)
    if subclasses := [index for index, info in enumerate(inputs) if info.is_subclass]:
        fn = with_plain(fn, boxed, subclasses)
    if states := [index for index, info in enumerate(inputs) if info.is_state]:
        fn = with_states(fn, boxed, states)
    return fn


def _take_out_inference_mode(graph: fx.Graph) -> bool:
    """Return whether all operators of the graph are inside `torch.inference_mode()`. If so, they no longer are, and must be compiled and run in that mode.

    AOTAutograd cannot trace views of tensors from outside a mode that the graph itself enters, and its results would be ordinary tensors.
    """
    scopes: list[fx.Node] = []
    removed: list[fx.Node] = []
    for node in graph.nodes:
        if node.target is _enter_inference_mode:
            scopes.append(node)
            removed.append(node)
        elif node.target is _exit_inference_mode:
            scopes.pop()
            removed.append(node)
        elif node.op not in ("placeholder", "output") and node.target not in MODE_CHANGES and not (scopes and scopes[-1].args == (True,)):
            return False
    for node in reversed(removed):
        graph.erase_node(node)
    return bool(removed)


def _in_inference_mode(fn: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        with torch._C._InferenceMode(True):
            return fn(*args)

    return run


def _compile_in_contexts(request: GraphRequest) -> tuple[Callable[..., Any], bool, list[BackendGuard]]:
    backend = request.backend
    frozen: Frozen | None = None
    floats = take_out(request)
    inner = request if floats is None else floats.request
    if backend.freezes() and not request.modes.grad:
        frozen = freeze(inner)
        inner = frozen.request
    detach_views(inner.gm)
    keep_order(inner.gm, inner.fake_mode)
    annotate(inner)
    if any(is_distributed(type(node.meta.get("example_value"))) for node in inner.gm.graph.nodes):
        forget_layouts()
    if frozen is not None:
        inner.gm._param_name_to_source |= frozen.sources  # type: ignore[operator]
    with backend_contexts(inner) as contexts:
        examples = example_inputs(inner, contexts)
        # AOTAutograd makes results that are views of an input again, from another tensor if it has replaced inputs that overlap.
        with functorch_config.patch(view_replay_for_aliased_outputs=not share_memory([info.value for info in inner.inputs]), **BACKWARD_AUTOCAST):
            fn, boxed = unbox(_call_or_leave(inner, examples))
        guards = contexts.guards(request)
        _forget_tensors(contexts.tracing.fake_mode)  # it lives as long as the backward may have to be compiled
    if frozen is not None:
        fn, boxed = dropping(fn, boxed, frozen.kept), True
        guards += [FrozenInputGuard(index if floats is None else floats.kept[index]) for index in frozen.frozen]
    if floats is not None:
        fn, boxed = floats.wrapped(fn, boxed), True
    return fn, boxed, guards


def _call_or_leave(request: GraphRequest, examples: list[Any]) -> Callable[..., Any]:
    """Call a backend that may trace the backward pass too. Raises LeftToAutograd if it can't compile the graph and is not to blame for that."""
    try:
        return _call_backend(request.backend, request.gm, examples)
    except BackendError as error:
        cause = cause_of(error, request)
        if cause is None:
            raise
        raise LeftToAutograd(*error.args) from cause


def forget_layouts() -> None:
    """Drop torch's cached layouts of distributed tensors: AOTAutograd would find device meshes there that are equal to those of the graph, but
    that it doesn't know."""
    clear = getattr(torch._C, "_clear_DTensor_sharding_propagator_cache", None)
    if clear is not None:
        clear()


def _call_backend(backend: Backend, gm: fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
    if not backend.trusted:
        _LazyGraphModule.force_recompile(gm)  # a `gm.forward` taken before its code exists would be slow at each call
    if underway.is_beside() and (backend.takes.one_autograd_node or not backend.trusted):
        patch_preserve_rng_state()
    try:
        fn = backend.call(gm, examples, **backend.kwargs)
    except FramejitError:
        raise
    except Exception as error:
        raise BackendError(backend.name, f"raised {type(error).__name__}: {error}") from error
    if not callable(fn):
        raise BackendError(
            backend.name, f"returned {fn!r} of type {type(fn).__name__}; it must return a callable that runs the graph it was given"
        )
    return fn


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
    _forget_tensors(request.fake_mode)


def _forget_tensors(mode: FakeTensorMode | None) -> None:
    """Drop a mode's weak references to real tensors: `torch.utils.swap_tensors` rejects a tensor that has any."""
    if mode is not None:
        mode.fake_tensor_converter.meta_converter.describer.lookup_tensor.clear()


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
