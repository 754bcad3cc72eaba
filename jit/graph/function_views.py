"""Finds results of a graph that are views of an autograd.Function's result which is a view itself, such as a gradient reversal's (`return x.view_as(x)`)."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from framejit.graph.fake import storages
from framejit.graph.gradient_paths import gives_gradients, passes_gradients
from framejit.graph.inner import nodes_within
from framejit.graph.metadata import CHANGES
from framejit.graph.values import tensors_of


def first_passed_by(graph: fx.Graph, outputs: Sequence[fx.Node], inputs: Iterable[torch.Tensor]) -> fx.Node | None:
    """The first node that records a backward for a view by which AOTAutograd would pass; None if there is none.

    AOTAutograd makes results in one memory again, as views of their base. So their gradients don't pass through the Function's backward. It leaves a result
    as it is if that is the only one in its memory, or, in the memory of an input, if it is a Function's own result and the graph doesn't change the input.
    """
    of_inputs: set[int] | None = None
    recorders = dict(views_with_backward(graph))
    for view, recorder in recorders.items():
        memory = memory_of(view)
        beside = [node for node in outputs if memory_of(node) & memory]
        differentiable = [node for node in beside if value_of(node).requires_grad]
        if not differentiable or set(differentiable).isdisjoint(views_of(view)):
            continue
        of_inputs = storages(inputs) if of_inputs is None else of_inputs
        if memory & of_inputs:
            is_left = len(differentiable) == 1 and differentiable[0] in recorders and not is_changed(graph, memory)
        else:
            is_left = len(beside) == 1
        if not is_left:
            return recorder
    return None


def views_with_backward(graph: fx.Graph) -> Iterator[tuple[fx.Node, fx.Node]]:
    """The views that have a backward of their own, each with the node that records it. A result that the Function has changed in place is no view."""
    for node in graph.nodes:
        given: Sequence[Any] = ()
        if gives_gradients(node.target):
            given = [result for index, result in enumerate(node.args[1]) if index not in node.target.dirty]
        elif node.target is operator.getitem and isinstance(made := node.args[0], fx.Node):
            returned = gives_gradients(made.target) and node.args[1] not in made.target.dirty  # an argument that the Function returns as it is
            given = [node] if returned or passes_gradients(made.target) or is_view_made_inside(node, made) else []
        for result in given:
            if isinstance(result, fx.Node) and is_view(result) and value_of(result).requires_grad:
                yield result, node


def is_view_made_inside(item: fx.Node, made: fx.Node) -> bool:
    """Return whether a result of an operator that takes a graph, such as a checkpoint, is a view of its arguments, and a node in there records a backward."""
    is_recorded = any(gives_gradients(inner.target) or passes_gradients(inner.target) for inner in nodes_within(made))
    return is_recorded and any(memory_of(used) & memory_of(item) for used in made.all_input_nodes)


def is_view(node: fx.Node) -> bool:
    """Return whether a node gives a tensor in the memory of one of its arguments."""
    return isinstance(value_of(node), torch.Tensor) and any(memory_of(used) & memory_of(node) for used in node.all_input_nodes)


def views_of(view: fx.Node) -> set[fx.Node]:
    """A view and the views of it, and the views of these."""
    found = {view}
    for node in view.graph.nodes:
        if not found.isdisjoint(node.all_input_nodes) and memory_of(node) & memory_of(view):
            found.add(node)
    return found


def is_changed(graph: fx.Graph, memory: set[int]) -> bool:
    """Return whether an operator of the graph writes to a memory."""
    changing = [node for node in graph.nodes if not gives_gradients(node.target)]
    return any(memory_of(used) & memory for node in changing for used in node.meta.get(CHANGES, ()))


def memory_of(node: fx.Node) -> set[int]:
    """The storages of the tensors that a node gives."""
    return storages(tensors_of(value_of(node)))


def value_of(node: fx.Node) -> Any:
    """A node's value in the trace."""
    return node.meta.get("example_value")
