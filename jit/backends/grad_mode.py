"""The grad mode of a graph under AOTAutograd, which regenerates results that are views after the graph, in the mode in which the graph began."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from framejit.backends.request import GraphRequest
from framejit.graph.inner import nodes_inside

SET_GRAD = torch._C._set_grad_enabled


def records_gradients(request: GraphRequest) -> bool:
    """True if autograd may record operators of the graph."""
    return request.modes.grad or not request.modes.inference and any(node.target is SET_GRAD and node.args[0] for node in nodes_inside(request.gm))


def begin_with_gradients(request: GraphRequest) -> GraphRequest:
    """The request for a graph that begins without gradients and switches them on, as one for a graph that begins with gradients and switches them off.

    So views of inputs and of intermediate results that leave the graph get an autograd record. Those that were made while gradients were off have none:
    they require no gradient, or make a graph break (`graph/autograd_node.py`).
    """
    if request.modes.grad or not records_gradients(request):
        return request
    graph = request.gm.graph
    first = next(node for node in graph.nodes if node.op != "placeholder")
    with graph.inserting_before(first):
        graph.call_function(SET_GRAD, (False,))
    request.gm.recompile()
    return replace(request, modes=replace(request.modes, grad=True))


def with_gradients(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, called with gradients on; its graph leaves the mode as the program does."""

    def run(*args: Any) -> Any:
        torch._C._set_grad_enabled(True)
        return fn(*args)

    return run


def detach_views(gm: fx.GraphModule) -> None:
    """Detach views that were made while gradients were off and require none.

    A view of a leaf that is itself a view (`torch.arange(6.0).view(2, 3).requires_grad_()`) is an example. AOTAutograd doesn't see that the leaf is a view,
    and would make its view require a gradient.
    """
    for node in list(gm.graph.nodes):
        fake = node.meta.get("example_value")
        if node.op not in ("placeholder", "output") and isinstance(fake, torch.Tensor) and is_unrecorded_view(fake, node):
            with gm.graph.inserting_after(node):
                detached = gm.graph.call_method("detach", (node,))
            detached.meta = dict(node.meta)
            node.replace_all_uses_with(detached, lambda user, detached=detached: user is not detached)


def is_unrecorded_view(fake: torch.Tensor, node: fx.Node) -> bool:
    """Return whether a node's result is a view, without a gradient, of an argument with one."""
    if not fake._is_view() or fake.requires_grad or fake.is_inference():
        return False
    arguments = [used.meta.get("example_value") for used in node.all_input_nodes]
    return any(isinstance(argument, torch.Tensor) and argument.requires_grad for argument in arguments)
