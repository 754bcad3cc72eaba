"""Finished graphs inside the graph, as operators take them that run them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import fx

from framejit.graph.prune import Running, has_effect


@dataclass(frozen=True, slots=True)
class InnerGraph:
    """A finished inner graph. `operands`: the nodes around it whose values its placeholders take, in order; `modules`: holds graphs inside it;
    `switches_modes`: some of its nodes switch torch's modes, and others back. `kept`: the nodes that do something besides their results.
    """

    graph: fx.Graph
    operands: tuple[fx.Node, ...]
    modules: torch.nn.Module
    switches_modes: bool
    kept: frozenset[fx.Node]

    def taking(self, operands: Sequence[fx.Node], running: Running, bare: bool = False) -> InnerGraph:
        """This graph as one that takes these values: all that it uses, and maybe more. What it computes for nothing goes; see prune.py.

        `bare`: it gives its only result as such, and not a tuple.
        """
        given = dict(zip(self.operands, self.graph.find_nodes(op="placeholder"), strict=True))
        copy, copies = fx.Graph(), dict[fx.Node, fx.Node]()
        for operand in operands:
            placeholder = copy.placeholder(operand.name)
            placeholder.meta["example_value"] = operand.meta["example_value"]
            if operand in given:
                copies[given[operand]] = placeholder
        for node in self._needed(running):
            copies[node] = copy.node_copy(node, copies.__getitem__)
        end = copy.output_node()
        if bare:
            end.args = end.args[0]  # type: ignore[assignment]
        kept = frozenset([copies[node] for node in self.kept])
        return replace(self, graph=copy, operands=tuple(operands), kept=kept)

    def _needed(self, running: Running) -> list[fx.Node]:
        """The nodes but the placeholders that do something, or from which others or the results are computed."""
        needed: set[fx.Node] = set()
        for node in reversed(self.graph.nodes):
            if node.op != "placeholder" and (
                node.op == "output" or node in self.kept or not needed.isdisjoint(node.users) or (node.op != "get_attr" and has_effect(node, running))
            ):
                needed.add(node)
        return [node for node in self.graph.nodes if node in needed]
