"""Cuts a graph where the trace has copied the calls of modules, for a backend that runs node by node: equal calls share one function.

    x = layer_0(x, ...)      # traced: its nodes are a part, and the code for them is written and compiled
    x = layer_1(x, ...)      # copied: its nodes do the same with other tensors, and so the same function runs them

The graph itself stays whole, for reports; only the code that runs it consists of parts. Errors are reported as ever: copied nodes are at the same places of
the program as those that they were copied from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from torch import fx
from torch.fx._lazy_graph_module import _LazyGraphModule

from framejit.backends.memory import outputs_of
from framejit.backends.request import GraphRequest
from framejit.saved.remade import made_by

LEAST_NODES = 8
"""The fewest nodes of a call that has a function: for fewer, calling one would take too long beside what it does."""
LEAST_SAVED = 60
"""The fewest nodes for which no code has to be written for a graph to be cut."""

Copies = Mapping[fx.Node, fx.Node]
"""The nodes that were made for a copied call, in order, each with the node that it is a copy of."""
Step = tuple[Callable[[list[Any]], Sequence[Any]], tuple[int, ...], tuple[int, ...], int, int]
"""A boxed function, the numbers of the values that it takes, those of which it is the last to need, and the first and last number of its results."""


def compile_parts(request: GraphRequest, parts: Sequence[GraphPart], compile_one: Callable[[fx.GraphModule], Callable[..., Any]]) -> Callable[[list[Any]], Any]:
    """The boxed callable of a graph that has been cut. `compile_one` gives one for the graph of a part; it is called once for equal ones."""
    gm = request.gm
    compiled = {part: compile_one(graph_of(gm, part)) for part in dict.fromkeys([part.first for part in parts])}
    outputs, inputs = outputs_of(gm.graph), gm.graph.find_nodes(op="placeholder")
    last = {node: number for number, part in enumerate(parts) for node in part.operands} | dict.fromkeys(outputs, len(parts))
    last.update((node, len(parts)) for node, info in zip(inputs, request.inputs, strict=True) if info.is_parameter)  # which live on in their modules
    numbers = {node: number for number, node in enumerate(inputs)}
    steps: list[Step] = []
    for number, part in enumerate(parts):
        taken = [numbers[node] for node in part.operands]
        dropped = [numbers[node] for node in dict.fromkeys(part.operands) if last[node] == number]
        begin = len(numbers)
        for node in part.results():
            numbers[node] = len(numbers)
        steps.append((compiled[part.first], tuple(taken), tuple(dropped), begin, len(numbers)))
    return in_turn(tuple(steps), len(numbers), tuple([numbers[node] for node in outputs]))


def in_turn(steps: Sequence[Step], count: int, outputs: Sequence[int]) -> Callable[[list[Any]], Any]:
    """A boxed callable that runs these steps in order. Each value, of which there are `count`, is dropped when the last step that needs it takes it."""
    ready = [(function, items(taken), dropped, begin, end) for function, taken, dropped, begin, end in steps]

    def run(inputs: list[Any]) -> list[Any]:
        values = inputs + [None] * (count - len(inputs))
        inputs.clear()
        for function, take, dropped, begin, end in ready:
            given = list(take(values))
            for number in dropped:
                values[number] = None
            values[begin:end] = function(given)
        return [values[number] for number in outputs]

    return made_by(run, in_turn, steps, count, outputs)


def items(numbers: Sequence[int]) -> Callable[[list[Any]], Iterable[Any]]:
    """A function that gives these items of a list."""
    return itemgetter(*numbers) if len(numbers) > 1 else lambda values: [values[number] for number in numbers]


def graph_of(gm: fx.GraphModule, part: GraphPart) -> fx.GraphModule:
    """A part of a graph as a graph."""
    graph = fx.Graph()
    copies = {node: graph.placeholder(node.name) for node in part.operands}
    for node in part.nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple([copies[node] for node in part.results()]))
    return _LazyGraphModule(gm, graph)


def cut_at_copies(graph: fx.Graph, copied: Iterable[Copies]) -> list[GraphPart]:
    """The parts of a graph, in order; none if too little repeats, or if the graph holds others. `copied`: the calls that were copied."""
    if graph.find_nodes(op="get_attr"):
        return []
    nodes = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
    place = {node: number for number, node in enumerate(nodes)}
    owners: dict[fx.Node, GraphPart] = {}
    for copies in sorted(copied, key=len, reverse=True):
        first, again = part_of(copies.values(), place), part_of(copies, place)
        if first is None or again is None or not owners.keys().isdisjoint(again.nodes):
            continue
        known = owners.get(first.nodes[0], first)
        if known.nodes == first.nodes and (known is not first or owners.keys().isdisjoint(first.nodes)) and again.does_as(known):
            owners |= dict.fromkeys(first.nodes, known) | dict.fromkeys(again.nodes, again)
    parts = [owner or GraphPart(tuple(stretch)) for owner, stretch in groupby(nodes, owners.get)]
    return parts if sum([len(part.nodes) for part in parts if part.first is not part]) >= LEAST_SAVED else []


def part_of(nodes: Iterable[fx.Node], place: Mapping[fx.Node, int]) -> GraphPart | None:
    """The part of the graph that consists of those of the nodes that are still there. None if there are too few, or others between them."""
    there = tuple([node for node in nodes if node in place])
    return GraphPart(there) if len(there) >= LEAST_NODES and all(place[node] == place[there[0]] + number for number, node in enumerate(there)) else None


class GraphPart:
    """A part of a graph.

    Attributes:
        nodes, operands: its nodes, and those before it that they use.
        used_outside: the numbers of its nodes that others use.
        first: the part that it does the same as; itself, unless `does_as` has found another.
    """

    def __init__(self, nodes: tuple[fx.Node, ...]) -> None:
        inside = set(nodes)
        self.nodes = nodes
        self.operands = tuple(dict.fromkeys([used for node in nodes for used in node.all_input_nodes if used not in inside]))
        self.used_outside = [number for number, node in enumerate(nodes) if not inside.issuperset(node.users)]
        self.first = self

    def results(self) -> list[fx.Node]:
        """The nodes that others use."""
        return [self.nodes[number] for number in self.used_outside]

    def does_as(self, first: GraphPart) -> bool:
        """Return whether each node does the same as one of another part. Then the operands come in the order of that one's."""
        if len(self.nodes) != len(first.nodes) or self.used_outside != first.used_outside:
            return False
        stands_for = dict(zip(first.nodes, self.nodes))
        if not all(map(does_same, first.nodes, self.nodes, [stands_for] * len(self.nodes))):
            return False
        operands = tuple([stands_for[node] for node in first.operands])
        if not set(self.nodes).isdisjoint(operands):
            return False
        self.operands, self.first = operands, first.first
        return True


def does_same(one: fx.Node, other: fx.Node, stands_for: dict[fx.Node, fx.Node]) -> bool:
    """Return whether a node does the same as another one. `stands_for`: the nodes that are in the place of the first one's arguments; those that are met first
    here are added."""
    return one.op == other.op and one.target is other.target and is_same(one.args, other.args, stands_for) and is_same(one.kwargs, other.kwargs, stands_for)


def is_same(one: Any, other: Any, stands_for: dict[fx.Node, fx.Node]) -> bool:
    """Return whether an argument is another one, with other nodes in the place of nodes."""
    if isinstance(one, fx.Node):
        return stands_for.setdefault(one, other) is other
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(is_same(item, another, stands_for) for item, another in zip(one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(is_same(item, other[name], stands_for) for name, item in one.items())
    if isinstance(one, slice):
        return is_same((one.start, one.stop, one.step), (other.start, other.stop, other.step), stands_for)
    return False
