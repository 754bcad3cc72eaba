"""Compiles a graph with a backend that traces it again: in the contexts that it needs, after what such a backend can't do has been taken out of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._functorch import config as functorch_config
from torch.autograd.grad_mode import _enter_inference_mode, _exit_inference_mode

from framejit.backends.calling import call_backend, dropping, forget_tensors, unbox
from framejit.backends.contexts import annotate, backend_contexts, example_inputs, share_memory
from framejit.backends.detached_results import detaching, keep_attached, returns_detached_view
from framejit.backends.floats import take_out
from framejit.backends.freezing import Frozen, freeze
from framejit.backends.grad_mode import detach_views
from framejit.backends.left_to_autograd import LeftToAutograd, cause_of
from framejit.backends.order_in_memory import keep_order
from framejit.backends.request import BackendGuard, FrozenInputGuard, GraphRequest
from framejit.errors import BackendError
from framejit.torch_state.torch_classes import is_distributed
from framejit.torch_state.torch_modes import MODE_CHANGES

BACKWARD_AUTOCAST = {"backward_pass_autocast": "off"} if hasattr(functorch_config, "backward_pass_autocast") else {}
"""AOTAutograd's setting for autocast in backward passes: off, as in eager if a backward pass runs outside of it. Otherwise they would be compiled under the
autocast in which the graph begins, and would use its dtype for operators that the forward pass runs outside of autocast."""


def take_out_inference_mode(graph: fx.Graph) -> bool:
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


def compile_in_contexts(request: GraphRequest) -> tuple[Callable[..., Any], bool, list[BackendGuard]]:
    """The callable that the backend makes of a graph, whether it takes its inputs as one list, and the guards that it asks for."""
    backend = request.backend
    frozen: Frozen | None = None
    floats = take_out(request)
    inner = request if floats is None else floats.request
    if backend.freezes() and not request.modes.grad:
        frozen = freeze(inner)
        inner = frozen.request
    detach_views(inner.gm)
    detached = keep_attached(inner.gm)
    keep_order(inner.gm, inner.fake_mode)
    annotate(inner)
    if any(is_distributed(type(node.meta.get("example_value"))) for node in inner.gm.graph.nodes):
        forget_layouts()
    if frozen is not None:
        inner.gm._param_name_to_source |= frozen.sources  # type: ignore[operator]
    with backend_contexts(inner) as contexts:
        examples = example_inputs(inner, contexts)
        # AOTAutograd makes results that are views of an input again, from another tensor if it has replaced inputs that overlap.
        by_geometry = share_memory([info.value for info in inner.inputs]) or returns_detached_view(inner.gm.graph)
        with functorch_config.patch(view_replay_for_aliased_outputs=not by_geometry, **BACKWARD_AUTOCAST):
            fn, boxed = unbox(_call_or_leave(inner, examples))
        guards = contexts.guards(request)
        forget_tensors(contexts.tracing.fake_mode)  # it lives as long as the backward may have to be compiled
    if detached:
        fn, boxed = detaching(fn, boxed, detached), True
    if frozen is not None:
        fn, boxed = dropping(fn, boxed, frozen.kept), True
        guards += [FrozenInputGuard(index if floats is None else floats.kept[index]) for index in frozen.frozen]
    if floats is not None:
        fn, boxed = floats.wrapped(fn, boxed), True
    return fn, boxed, guards


def _call_or_leave(request: GraphRequest, examples: list[Any]) -> Callable[..., Any]:
    """Call a backend that may trace the backward pass too. Raises LeftToAutograd if it can't compile the graph and is not to blame for that."""
    try:
        return call_backend(request.backend, request.gm, examples)
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
