"""`InnerGraph`, a finished inner graph, which an operator takes as an argument and runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import fx

from framejit.graph.prune import Running, effects_of, has_effect, is_elementwise
from framejit.quick_dataclass import dataclass


def graph_modules(module: torch.nn.Module) -> Iterator[fx.GraphModule]:
    """The graphs that a module holds, itself included if it is one, and those inside them."""
    return (inner for inner in module.modules() if isinstance(inner, fx.GraphModule))


def nodes_inside(module: torch.nn.Module) -> Iterator[fx.Node]:
    """The nodes of all graphs that a module holds."""
    return (node for inner in graph_modules(module) for node in inner.graph.nodes)


def nodes_within(node: fx.Node) -> list[fx.Node]:
    """The nodes of the graphs that an operator takes."""
    modules = [module for used in node.all_input_nodes if isinstance(module := used.meta.get("example_value"), fx.GraphModule)]
    return [inner for module in modules for inner in nodes_inside(module)]


@dataclass(frozen=True, slots=True)
class Place:
    """A node as an argument of others, by its number."""

    number: int


def likeness(example: object) -> str:
    """The facts about a value that are known while tracing, as text."""
    if not isinstance(example, torch.Tensor):
        return repr(example)
    keys = torch._C._dispatch_keys(example).raw_repr()
    return f"{example.dtype} {example.device} {tuple(example.size())} {example.stride()} {example.storage_offset()} {example.requires_grad} {keys}"


@dataclass(frozen=True, slots=True)
class InnerGraph:
    """A finished inner graph. `operands`: the nodes of the outer graph whose values its placeholders take, in order; `modules`: holds graphs inside it;
    `switches_modes`: some of its nodes switch torch's modes, and others switch them back. `kept`: the nodes that do something besides computing their results.
    """

    graph: fx.Graph
    operands: tuple[fx.Node, ...]
    modules: torch.nn.Module
    switches_modes: bool
    kept: frozenset[fx.Node]

    def taking(self, operands: Sequence[fx.Node], running: Running, bare: bool = False) -> InnerGraph:
        """This graph with these operands: all that it uses, and maybe more. Nodes that it doesn't need are removed; see prune.py.

        `bare`: it returns its only result itself, and not in a tuple.
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

    def does_more(self, running: Running) -> bool:
        """Return whether it does something besides computing results: changes a tensor, or draws random numbers."""
        acts, draws = self.effects(running)
        return acts or draws

    def effects(self, running: Running) -> tuple[bool, bool]:
        """Return whether it does something besides computing results and drawing random numbers from torch's generators, and whether it draws such numbers."""
        found = [effects_of(node, running) for node in self._operators()]
        return bool(self.kept) or any(effects.acts for effects in found), any(effects.draws for effects in found)

    def checks_factors(self, running: Running) -> bool:
        """Return whether it raises where a matrix can't be factorised."""
        return any(effects_of(node, running).checks_factors for node in self._operators() if node not in self.kept)

    def is_elementwise(self, running: Running) -> bool:
        """Return whether each element of the results is computed from elements of the operands at the same position, so that the graph can take many rows at
        once."""
        return not self.graph.find_nodes(op="get_attr") and is_elementwise(self._operators(), running)

    def _operators(self) -> list[fx.Node]:
        return [node for node in self.graph.nodes if node.op not in ("placeholder", "get_attr", "output")]

    def pattern(self) -> str | None:
        """A text that is the same for graphs that compute the same from tensors that look the same; None if there are graphs inside it."""
        numbers = {node: Place(number) for number, node in enumerate(self.graph.nodes)}
        lines = []
        for node in self.graph.nodes:
            if node.op == "get_attr":
                return None
            if node.op == "placeholder":
                lines.append(likeness(node.meta["example_value"]))
                continue
            args, kwargs = fx.map_arg((node.args, node.kwargs), numbers.__getitem__)  # type: ignore[misc]
            lines.append(f"{node.target if isinstance(node.target, str) else id(node.target)} {args!r} {kwargs!r}")
        return "\n".join(lines)

    def _needed(self, running: Running) -> list[fx.Node]:
        """The nodes, apart from placeholders, that have an effect, or from which others or the results are computed."""
        needed: set[fx.Node] = set()
        for node in reversed(self.graph.nodes):
            if node.op != "placeholder" and (
                node.op == "output" or node in self.kept or not needed.isdisjoint(node.users) or (node.op != "get_attr" and has_effect(node, running))
            ):
                needed.add(node)
        return [node for node in self.graph.nodes if node in needed]
