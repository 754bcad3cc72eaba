"""Finds writes of a graph's nodes that the versions of fakes don't show.

A tensor's version counts writes to it and to its views. But `x.data` has a separate version, writes to running statistics aren't counted, and such writes in an
inner graph happen when the node runs that runs the inner graph.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

import torch
from torch import fx

from framejit.graph.fake import storages, version_of
from framejit.graph.on_fakes import may_write
from framejit.graph.statistics import changed_statistics


def arguments_of(node: fx.Node) -> list[tuple[fx.Node, torch.Tensor]]:
    """The nodes among a node's arguments that are tensors, with their fakes."""
    return [(used, fake) for used in node.all_input_nodes if isinstance(fake := used.meta.get("example_value"), torch.Tensor)]


WRITTEN_INSIDE = "framejit_written_inside"
"""The key, in the metadata of a node that runs an inner graph, of those of its arguments to whose memory that graph writes without changing their versions."""


def counted_elsewhere(nodes: Iterable[fx.Node], inputs: Container[fx.Node]) -> set[int]:
    """The keys of the storages that nodes may have written to by tensors other than inputs, such as `x.data`."""
    return storages(fake for node in nodes for used, fake in arguments_of(node) if used not in inputs and version_of(fake) > 0)


def written_by_others(nodes: Iterable[fx.Node], inputs: Container[fx.Node]) -> set[int]:
    """The keys of the storages that nodes may have written to without changing the versions of inputs."""
    written: list[torch.Tensor] = []
    for node in nodes:
        written += changed_statistics(node)
        written += [used.meta["example_value"] for used in node.meta.get(WRITTEN_INSIDE, ())]
    return storages(written) | counted_elsewhere(nodes, inputs)


def written_inside(node: fx.Node) -> list[fx.Node]:
    """The arguments of a node to whose memory its inner graphs write without changing their versions."""
    written: set[int] = set()
    for graph in [module.graph for used in node.all_input_nodes if isinstance(module := used.meta.get("example_value"), fx.GraphModule)]:
        written |= written_by_others(graph.nodes, graph.find_nodes(op="placeholder")) | storages(in_lists(graph.nodes))
    return [used for used, fake in arguments_of(node) if written and storages([fake]) & written]


def in_lists(nodes: Iterable[fx.Node]) -> list[torch.Tensor]:
    """The tensors of lists that nodes may write to: in an inner graph, such writes aren't counted."""
    lists = [arg for node in nodes if may_write(node.target, node.kwargs) for arg in (*node.args, *node.kwargs.values()) if isinstance(arg, (list, tuple))]
    return [fake for given in lists for item in given if isinstance(item, fx.Node) and isinstance(fake := item.meta.get("example_value"), torch.Tensor)]
