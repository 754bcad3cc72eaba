"""Finds inputs of a graph for which only some of its results have a gradient. A backward pass from the other results leaves their gradients undefined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from framejit.graph.autograd_node import tensors_of
from framejit.graph.gradient_paths import node_of
from framejit.graph.prune import output_nodes


def partly_reached(graph: fx.Graph, spent: Iterable[int]) -> dict[int, frozenset[int]]:
    """For each input that gradients of some results reach, and those of others don't: the indices of the results whose gradients do.

    `spent`: indices of results that can't be differentiated. An input counts as reached if either autograd has recorded a path for the fakes, or
    nodes that require gradients lead from it to the result: the record includes in-place changes, the nodes include what fakes don't record.
    """
    inputs = [node.meta["example_value"] for node in graph.find_nodes(op="placeholder")]
    outputs = output_nodes(graph)
    left_out = frozenset(spent)
    differentiable = [index for index, node in enumerate(outputs) if index not in left_out and requires_grad(node.meta["example_value"])]
    if len(differentiable) < 2:
        return {}
    by_nodes = reached_by_nodes(graph, [outputs[index] for index in differentiable])
    by_record = reached_by_record([outputs[index].meta["example_value"] for index in differentiable], inputs)
    found: dict[int, frozenset[int]] = {}
    for index, node in enumerate(graph.find_nodes(op="placeholder")):
        mask = by_nodes.get(node, 0) | by_record.get(index, 0)
        if mask and requires_grad(inputs[index]) and mask != (1 << len(differentiable)) - 1:
            found[index] = frozenset(result for bit, result in enumerate(differentiable) if mask >> bit & 1)
    return found


def requires_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def reached_by_nodes(graph: fx.Graph, results: Sequence[fx.Node]) -> Mapping[fx.Node, int]:
    """The results that nodes lead to, by node, as bits. A tensor that requires no gradient leads nowhere."""
    masks: dict[fx.Node, int] = {}
    for bit, node in enumerate(results):
        masks[node] = masks.get(node, 0) | 1 << bit
    for node in reversed(graph.nodes):
        mask = masks.get(node, 0)
        tensors = list(tensors_of(node.meta.get("example_value")))
        if mask and (not tensors or any(tensor.requires_grad for tensor in tensors)):
            for before in node.all_input_nodes:
                masks[before] = masks.get(before, 0) | mask
    return masks


def reached_by_record(results: Sequence[torch.Tensor], inputs: Sequence[Any]) -> Mapping[int, int]:
    """The results from which autograd's record leads to inputs, by the index of the input, as bits."""
    leaves = {id(fake): index for index, fake in enumerate(inputs) if requires_grad(fake)}
    ends = {node: index for index, fake in enumerate(inputs) if requires_grad(fake) and (node := node_of(fake)) is not None}
    masks: dict[Any, int] = {}
    found: dict[int, int] = {}
    for bit, fake in enumerate(results):
        if id(fake) in leaves:
            found[leaves[id(fake)]] = found.get(leaves[id(fake)], 0) | 1 << bit
        elif (node := node_of(fake)) is not None:
            masks[node] = masks.get(node, 0) | 1 << bit
    for node in in_order(masks, ends):
        end = ends.get(node, leaves.get(id(getattr(node, "variable", None))))
        if end is not None:
            found[end] = found.get(end, 0) | masks[node]
            continue
        for following, _ in node.next_functions:
            if following is not None:
                masks[following] = masks.get(following, 0) | masks[node]
    return found


def in_order(roots: Iterable[Any], ends: Mapping[Any, int]) -> list[Any]:
    """The autograd nodes that roots lead to, each before those that it leads to; no further than to the ends."""
    order: list[Any] = []
    seen: set[Any] = set()
    waiting = [(root, False) for root in roots]
    while waiting:
        node, is_done = waiting.pop()
        if is_done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            waiting.append((node, True))
            if node not in ends:
                waiting += [(following, False) for following, _ in node.next_functions if following is not None and following not in seen]
    return order[::-1]
