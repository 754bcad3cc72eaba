"""Results that are detached from views which the graph has too (`y = (x * 2).mT; return y, y.detach()`): a backend gets the graph without the detaching.

AOTAutograd would make such a result again by the views that lead to it, of which it knows none before the one that detaches, and so return the numbers before
the transposition. Inductor would return one tensor for a result and the detached one, which then has no gradient (`return y.detach(), y.mT`; torch 2.13).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from framejit.backends.memory import memory_of, outputs_of
from framejit.graph.fake import version_of


def returns_detached_view(graph: fx.Graph) -> bool:
    """Return whether the graph has such a result."""
    return bool(_places(graph))


def _places(graph: fx.Graph) -> list[int]:
    """The indices of results without a gradient that lie in the memory of a view with one, which is no view of an input. None in a graph that computes
    gradients itself: the records of its results may be used up."""
    if graph.find_nodes(op="call_function", target=torch.autograd.grad):
        return []
    of_inputs = {memory_of(node) for node in graph.find_nodes(op="placeholder")}
    views = {memory_of(node) for node in graph.nodes if node.op != "placeholder" and _is_recorded_view(node.meta.get("example_value"))} - of_inputs - {None}
    if not views:
        return []
    results = enumerate(outputs_of(graph))
    return [place for place, node in results if isinstance(node, fx.Node) and memory_of(node) in views and not node.meta["example_value"].requires_grad]


def _is_recorded_view(fake: Any) -> bool:
    """Return whether a value is a view with an autograd record."""
    return isinstance(fake, torch.Tensor) and fake.requires_grad and fake._is_view()


def keep_attached(gm: fx.GraphModule) -> dict[int, bool]:
    """Make a graph return what such results are detached from, or the same views of that.

    Returns:
        The indices of the results that are to be detached after the graph, and whether they are made by `.data`, whose versions are counted apart.
    """
    found: dict[int, bool] = {}
    results = list(outputs_of(gm.graph))
    for place in _places(gm.graph):
        chain = _chain(results[place])
        if chain is None:
            continue
        attached, *views = chain
        base = attached.args[0]
        for node in views:
            with gm.graph.inserting_after(node):
                again = gm.graph.node_copy(node, lambda used, node=node, base=base: base if used is node.args[0] else used)  # type: ignore[misc]
            base = again
        results[place], found[place] = base, attached.target is getattr
    if found:
        gm.graph.output_node().args = (tuple(results),)
        gm.recompile()
    return found


def _chain(node: fx.Node) -> list[fx.Node] | None:
    """The node that detaches a tensor with a gradient, and the views that lead from it to this one; None if there is more than these, or it is changed."""
    views: list[fx.Node] = []
    while not _detaches(node):
        source = node.args[0] if node.args else None
        if not isinstance(source, fx.Node) or memory_of(source) != memory_of(node) or version_of(node.meta["example_value"]):
            return None
        views.insert(0, node)
        node = source
    source = node.args[0]
    is_changed = version_of(node.meta["example_value"]) or version_of(source.meta["example_value"])  # type: ignore[union-attr]
    return None if is_changed or not source.meta["example_value"].requires_grad else [node, *views]  # type: ignore[union-attr]


def _detaches(node: fx.Node) -> bool:
    """Return whether a node is a call of `detach`, or reads `data`."""
    return node.target in ("detach", torch.detach, torch.Tensor.detach) or (node.target is getattr and node.args[1] == "data")


def detaching(fn: Callable[..., Any], boxed: bool, places: dict[int, bool]) -> Callable[[list[Any]], Any]:
    """`fn`, whose results at these places are detached: by `.data` if so noted."""

    def call(args: list[Any]) -> Any:
        given = list(args)
        args.clear()
        results = list(fn(given) if boxed else fn(*given))
        for place, is_data in places.items():
            results[place] = results[place].data if is_data else results[place].detach()
        return results

    return call
