"""Finds out which results of an ATen graph share memory, and corrects results that Inductor would return in the wrong memory."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from framejit.quick_dataclass import dataclass

ATEN = torch.ops.aten


def value_of(node: fx.Node) -> Any:
    """The result of a node on the fakes of its arguments."""
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda argument: argument.meta["val"])
    with torch.no_grad():
        return node.target(*args, **kwargs)  # type: ignore[operator]


def views_of(node: fx.Node) -> Iterator[fx.Node]:
    """The views of a node's result, and the views of these, in the graph's order."""
    for user in node.users:
        if is_view(user):
            yield user
            yield from views_of(user)


def is_view(node: fx.Node) -> bool:
    """Return whether a node's result lies in the memory of its first argument."""
    if node.target is operator.getitem:
        return is_view(node.args[0])  # type: ignore[arg-type]
    if node.target is ATEN._unsafe_view.default:
        return True
    return isinstance(node.target, OpOverload) and any(
        result.alias_info is not None and not result.alias_info.is_write for result in node.target._schema.returns
    )


def base_of(node: fx.Node) -> fx.Node:
    """The node of which another is a view, through all views in between; the node itself if it isn't a view."""
    while is_view(node):
        node = node.args[0]  # type: ignore[assignment]
    return node


def origin_of(node: fx.Node) -> fx.Node:
    """The node of which another is a view or a copy, through all views and copies in between: Inductor may replace a copy by its source."""
    while (source := node.args[0] if is_view(node) else copied_by(node)) is not None:
        node = source  # type: ignore[assignment]
    return node


def copied_by(node: fx.Node) -> fx.Node | None:
    """The node whose result another copies as it is, also as a concatenation of one tensor, with nothing around it, or once in each dimension; None for
    nodes that don't copy."""
    source, numbers = (*node.args, None, None)[:2]
    if node.target is ATEN.cat.default:
        return source[0] if len(source) == 1 else None  # type: ignore[index, arg-type, return-value]
    if node.target is ATEN.repeat.default:
        copies = are_all(1, numbers)
    else:
        copies = node.target is ATEN.clone.default or (node.target is ATEN.constant_pad_nd.default and are_all(0, numbers))
    return source if copies else None  # type: ignore[return-value]


def are_all(expected: int, numbers: Any) -> bool:
    """Return whether all of these numbers, of which some may be symbolic, are known to be this one."""
    return all(type(number) is int and number == expected for number in numbers)


def written_to_inputs(graph: fx.Graph) -> set[fx.Node]:
    """The origins of the values that a graph copies to its inputs at the end. Inductor may compute these in the memory of the inputs."""
    return {origin_of(node.args[1]) for node in graph.find_nodes(op="call_function", target=ATEN.copy_.default)}


def save_apart(forward: fx.GraphModule, num_fwd_outputs: int) -> None:
    """Make the values saved for the backward graph lie outside the inputs that the forward graph changes, to which the next call writes again.

    Inductor computes some operators' results, which are both copied to an input and saved, in the input's memory.
    """
    written = written_to_inputs(forward.graph)
    saved = range(num_fwd_outputs, len(outputs_of(forward.graph)))
    copy_results(forward, {place: place for place in saved if origin_of(outputs_of(forward.graph)[place]) in written})


@dataclass(frozen=True)
class Memories:
    """The memory of the inputs and the results of a graph: a number for each memory, None for values without memory of their own."""

    inputs: frozenset[int]
    results: tuple[int | None, ...]

    @staticmethod
    def of(graph: fx.Graph) -> Memories:
        """The memories in the trace."""
        inputs = [memory_of(node) for node in graph.find_nodes(op="placeholder")]
        results = [memory_of(node) for node in outputs_of(graph)]
        return Memories(frozenset(memory for memory in inputs if memory is not None), tuple(results))

    def tell_apart(self, gm: fx.GraphModule, before: int) -> None:
        """Make results lie in separate memory in AOTAutograd's graph too, in which `before` other results come first.

        Inductor replaces a sum with zeros, or a product with ones, by the other operand: `torch.zeros(3) + x` would be `x`. In `x[i] = 0; return x.clone()`
        it leaves the copy out.
        """
        written = written_to_inputs(gm.graph)
        bases: dict[fx.Node, int] = {}
        shared: dict[int, object] = {}
        for place, memory in enumerate(self.results, before):
            node = outputs_of(gm.graph)[place]
            if memory is None or memory in self.inputs or not isinstance(node, fx.Node):
                continue
            base, origin = base_of(node), origin_of(node)
            if base.op == "placeholder" or origin in written or bases.setdefault(origin, memory) != memory:
                shared[place] = memory
        copy_results(gm, shared)


def memory_of(node: Any) -> int | None:
    """A number for the memory of a node's value in the trace."""
    fake = node.meta.get("example_value") if isinstance(node, fx.Node) else None
    return fake.untyped_storage()._cdata if isinstance(fake, FakeTensor) and fake.layout is torch.strided else None


def outputs_of(graph: fx.Graph) -> Sequence[Any]:
    """The results of the graph."""
    return graph.output_node().args[0]  # type: ignore[return-value]


def copy_results(gm: fx.GraphModule, places: Mapping[int, object]) -> None:
    """Make a graph return copies at these places of its output: places with an equal object get views of one copy.

    Inductor doesn't remove `lift_fresh_copy`.
    """
    if not places:
        return
    results = list(outputs_of(gm.graph))
    copies: dict[tuple[fx.Node, object], fx.Node] = {}
    with gm.graph.inserting_before(gm.graph.output_node()):
        for place, memory in places.items():
            alone = list(places.values()).count(memory) == 1
            copied = results[place] if alone else base_of(results[place])
            if (copied, memory) not in copies:
                copies[copied, memory] = gm.graph.call_function(ATEN.lift_fresh_copy.default, (copied,))
                copies[copied, memory].meta["val"] = value_of(copies[copied, memory])
            results[place] = view_again(gm.graph, results[place], copied, copies[copied, memory])
    gm.graph.output_node().args = (tuple(results),)
    gm.recompile()


def view_again(graph: fx.Graph, view: fx.Node, old: fx.Node, new: fx.Node) -> fx.Node:
    """A node for the same view of another node."""
    if view is old:
        return new
    base = view_again(graph, view.args[0], old, new)  # type: ignore[arg-type]
    again = graph.node_copy(view, lambda node: base if node is view.args[0] else node)
    again.meta["val"] = value_of(again)
    return again
