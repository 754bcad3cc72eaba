"""Copies the part of a graph that comes after one of its nodes to a separate graph."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import torch
from torch import fx

from framejit.graph.body import Body
from framejit.graph.fake import storages
from framejit.graph.inner import InnerGraph
from framejit.graph.prune import Running, has_effect
from framejit.graph.written import arguments_of


def recomputed(
    body: Body, since: fx.Node, given: Collection[fx.Node], results: Sequence[fx.Node], running: Running
) -> tuple[InnerGraph, list[fx.Node]] | None:
    """The graph that computes `results` again, and those of the nodes `given` that it takes after its operands. The operands come before `since`.

    None if that isn't possible: the results depend on other results of `since`, on random numbers, or on tensors that are changed in place after it.
    """
    needed: set[fx.Node] = set()
    operands: dict[fx.Node, None] = {}
    taken: dict[fx.Node, None] = {}
    waiting = list(results)
    for node in waiting:
        if node in given:
            taken[node] = None
        elif node < since:
            operands[node] = None
        elif node is since or node.op not in ("call_function", "call_method") or node in body.kept or has_effect(node, running):
            return None
        elif node not in needed:
            needed.add(node)
            waiting += node.all_input_nodes
    used = [fake for node in (*needed, *operands, *taken) if isinstance(fake := node.meta["example_value"], torch.Tensor)]
    if storages(used) & storages(changed_by(node for node in body.kept if node > since)):
        return None
    graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in (*operands, *taken):
        copies[node] = graph.placeholder(node.name)
        copies[node].meta["example_value"] = node.meta["example_value"]
    for node in body.fx.nodes:
        if node in needed:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple([copies[node] for node in results]))
    return InnerGraph(graph, tuple(operands), torch.nn.Module(), False, frozenset()), list(taken)


def read_by_inner_graphs(body: Body) -> Iterator[torch.Tensor]:
    """The fakes that inner graphs take, some of which are read in a backward pass."""
    return (fake for node in body.notes if any(used.op == "get_attr" for used in node.all_input_nodes) for _, fake in arguments_of(node))


def changed_by(nodes: Iterable[fx.Node]) -> Iterator[torch.Tensor]:
    """The fakes that these nodes may change in place: a method, or a function of torch whose name ends in an underscore, changes its first argument."""
    for node in nodes:
        found: list[fx.Node] = []
        changes_first = node.op == "call_method" or getattr(node.target, "__name__", "").endswith("_")
        fx.map_arg((node.args[:1], node.kwargs.get("out")) if changes_first else (node.args, node.kwargs), found.append)
        yield from (fake for used in found if isinstance(fake := used.meta.get("example_value"), torch.Tensor))
