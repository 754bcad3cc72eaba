"""Finds inputs of a graph for which only some of its results have a gradient, or only in some calls. Other backward passes leave their gradients undefined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

import torch
from torch import fx

from framejit.graph.autograd_node import tensors_of
from framejit.graph.fake import storages, version_of
from framejit.graph.gradient_paths import beginning_of, node_of
from framejit.graph.metadata import CHANGES, UNRECORDED
from framejit.graph.optional_records import OptionalReach, is_optional, recorded_if
from framejit.graph.prune import output_nodes
from framejit.torch_state.gradient_edges import requires_grad


def partly_reached(graph: fx.Graph, spent: Iterable[int]) -> dict[int, frozenset[int]]:
    """For each input that gradients of some results reach, and those of others don't: the indices of the results whose gradients do.

    `spent`: indices of results that can't be differentiated. An input counts as reached if either autograd has recorded a path for the fakes, or
    nodes that require gradients lead from it to the result: the record includes in-place changes, the nodes include what fakes don't record.
    Inputs that the graph changes are results, too: `~index` stands for them. If there are any, all inputs that require gradients are in the mapping.
    """
    placeholders, outputs, left_out = graph.find_nodes(op="placeholder"), output_nodes(graph), frozenset(spent)
    inputs = [node.meta["example_value"] for node in placeholders]
    results = [index for index, node in enumerate(outputs) if index not in left_out and requires_grad(node.meta["example_value"])]
    changed = [index for index, fake in enumerate(inputs) if requires_grad(fake) and version_of(fake)]
    if len(results) + len(changed) < 2:
        return {}
    writing = changing_nodes(graph)
    writers = [[node for storage in storages([inputs[index]]) for node in writing.get(storage, ())] for index in changed]
    by_nodes = reached_by_nodes(graph, [*([outputs[index]] for index in results), *writers])
    by_record = reached_by_record([*(outputs[index].meta["example_value"] for index in results), *(inputs[index] for index in changed)], inputs)
    indices = [*results, *(~index for index in changed)]
    found: dict[int, frozenset[int]] = {}
    for index, node in enumerate(placeholders):
        mask = by_nodes.get(node, 0) | by_record.get(index, 0)
        if requires_grad(inputs[index]) and (changed or (mask and mask != (1 << len(indices)) - 1)):
            found[index] = frozenset(result for bit, result in enumerate(indices) if mask >> bit & 1)
    return found


def changing_nodes(graph: fx.Graph) -> dict[int, list[fx.Node]]:
    """The nodes that may have changed data in a storage, by the storage's key."""
    found: dict[int, list[fx.Node]] = {}
    for node in graph.nodes:
        for storage in storages(fake for used in node.meta.get(CHANGES, ()) for fake in tensors_of(used.meta["example_value"])):
            found.setdefault(storage, []).append(node)
    return found


def optional_reach(graph: fx.Graph, spent: Iterable[int]) -> OptionalReach | None:
    """The inputs that gradients of results reach by optional records, and by others; None if the graph has no optional records. `spent`: indices of results
    that can't be differentiated. What counts as reached is said at `partly_reached`."""
    records = [node for node in graph.find_nodes(op="call_function", target=recorded_if) if is_optional(node)]
    if not records:
        return None
    inputs, outputs, left_out = graph.find_nodes(op="placeholder"), output_nodes(graph), frozenset(spent)
    results = [index for index, node in enumerate(outputs) if index not in left_out and requires_grad(node.meta["example_value"])]
    roots = [*(node.args[0] for node in records), *(outputs[index] for index in results)]
    by_nodes = reached_by_nodes(graph, [[root] for root in roots], frozenset(records))
    ends = [*inputs, *records]
    by_record = reached_by_record([root.meta["example_value"] for root in roots], [node.meta["example_value"] for node in ends], len(inputs))
    masks = [by_nodes.get(node, 0) | by_record.get(index, 0) if requires_grad(node.meta["example_value"]) else 0 for index, node in enumerate(ends)]
    found = [reached_ends(masks, bit, len(inputs)) for bit in range(len(roots))]
    counts = tuple([outputs.index(node.args[1]) for node in records])  # type: ignore[arg-type]
    return OptionalReach(counts, tuple(zip(results, found[len(records) :], strict=True)), tuple(found[: len(records)]))


def reached_ends(masks: Sequence[int], bit: int, inputs: int) -> tuple[frozenset[int], frozenset[int]]:
    """The numbers of the optional records, and the indices of the inputs, that a result reaches. `masks`: the results that reach each input, and then each
    record, as bits; `inputs`: the number of inputs."""
    ends = [index for index, mask in enumerate(masks) if mask >> bit & 1]
    return frozenset(index - inputs for index in ends if index >= inputs), frozenset(index for index in ends if index < inputs)


def reached_by_nodes(graph: fx.Graph, results: Sequence[Sequence[fx.Node]], ends: Set[fx.Node] = frozenset()) -> Mapping[fx.Node, int]:
    """The results that nodes lead to, by node, as bits. Each result is given by the nodes that it comes from. A tensor that requires no gradient, or required
    none when it was made, leads nowhere, and nor do the `ends`."""
    masks: dict[fx.Node, int] = {}
    for bit, nodes in enumerate(results):
        for node in nodes:
            masks[node] = masks.get(node, 0) | 1 << bit
    for node in reversed(graph.nodes):
        mask = 0 if node in ends or UNRECORDED in node.meta else masks.get(node, 0)
        tensors = list(tensors_of(node.meta.get("example_value")))
        if mask and (not tensors or any(tensor.requires_grad for tensor in tensors)):
            for before in node.all_input_nodes:
                masks[before] = masks.get(before, 0) | mask
    return masks


def reached_by_record(results: Sequence[torch.Tensor], inputs: Sequence[Any], count: int | None = None) -> Mapping[int, int]:
    """The results from which autograd's record leads to inputs, by the index of the input, as bits. `count`: the number of inputs, if optional records follow
    them, which may be results of in-place changes themselves, and end where their own record is."""
    ends = Ends(inputs, len(inputs) if count is None else count)
    masks: dict[Any, int] = {}
    found: dict[int, int] = {}

    def reach(indices: Iterable[int], mask: int) -> None:
        for index in indices:
            found[index] = found.get(index, 0) | mask

    for bit, fake in enumerate(results):
        if id(fake) in ends.unchanged:
            reach(ends.unchanged[id(fake)], 1 << bit)
        elif (node := node_of(fake)) is not None:
            masks[node] = masks.get(node, 0) | 1 << bit
    for node, reached in in_order(masks, ends.at):
        if reached is not None:
            reach(reached, masks[node])
            continue
        for following, _ in node.next_functions:
            if following is not None:
                masks[following] = masks.get(following, 0) | masks[node]
    return found


class Ends:
    """The nodes at which autograd's record leads out of a graph, to inputs.

    The record of an input that the graph has changed in place leads to what it was changed with, and then to where it began. If that isn't known, as for
    some views, a path that ends at no known input counts as one to each changed input.

    Attributes:
        unchanged: the indices of inputs that the graph hasn't changed, by the ids of their fakes.
    """

    def __init__(self, inputs: Sequence[Any], count: int) -> None:
        recorded = {index: node_of(fake) for index, fake in enumerate(inputs) if requires_grad(fake)}
        self._changed = [index for index, node in recorded.items() if node is not None and index < count and version_of(inputs[index])]
        self._begun = {id(inputs[index]): [index] for index in self._changed}
        self.unchanged = {id(inputs[index]): [index] for index in recorded if index not in self._changed}
        self._nodes = {node: [index] for index, node in recorded.items() if node is not None and index not in self._changed}

    def at(self, node: Any) -> Sequence[int] | None:
        """The indices of the inputs to which a node leads, if it is an end; None if the record goes on."""
        if node in self._nodes:
            return self._nodes[node]
        if self._changed and (begun := self._begun.get(id(beginning_of(node)))) is not None:
            return begun
        if any(following is not None for following, _ in node.next_functions):
            return None
        return self.unchanged.get(id(getattr(node, "variable", None)), self._changed)


def in_order(roots: Iterable[Any], end_at: Callable[[Any], Sequence[int] | None]) -> list[tuple[Any, Sequence[int] | None]]:
    """The autograd nodes that roots lead to, each before those that it leads to, with what `end_at` says of it: after ends, whose answer isn't None, the
    search doesn't go on."""
    order: list[tuple[Any, Sequence[int] | None]] = []
    seen: set[Any] = set()
    waiting: list[tuple[Any, tuple[Any, Sequence[int] | None] | None]] = [(root, None) for root in roots]
    while waiting:
        node, done = waiting.pop()
        if done is not None:
            order.append(done)
        elif node not in seen:
            seen.add(node)
            end = end_at(node)
            waiting.append((node, (node, end)))
            if end is None:
                waiting += [(following, None) for following, _ in node.next_functions if following is not None and following not in seen]
    return order[::-1]
