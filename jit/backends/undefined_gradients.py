"""Gradients that stay undefined: a backward pass from some of a graph's results gives None for inputs that only the others depend on, as in eager.

AOTAutograd computes with zeros for results without a gradient, and returns zeros. A hook after its autograd node removes these. It does the same for inputs
that only code depends on which eager skips in this call (graph/optional_records.py).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from framejit.graph.optional_records import OptionalReach, reached_by
from framejit.quick_dataclass import dataclass
from framejit.torch_state.gradient_edges import edge_of, requires_grad

AOT_NODE = "CompiledFunctionBackward"
"""The type of AOTAutograd's nodes (torch/_functorch/_aot_autograd/runtime_wrappers.py)."""
COPY_NODE = "CopyBackwards"
"""The type of the node by which an input gets its new data after the graph; the gradient of these goes to its second edge."""
MOST_VIEWS = 8
"""The most views that AOTAutograd makes of a result, and that are followed back to it."""


class Positions:
    """The places at which gradients of a compiled graph go in and come out.

    Attributes:
        result: the index of a result that AOTAutograd's node has returned, or `~index` of an input that was changed.
        known: the places, among the node's results, of those for which the dependent inputs are known.
        needs: for places among the gradients of the node's inputs, the places of the results that the inputs depend on.
        indices: the indices of these inputs among the inputs of the graph, by their places.
    """

    def __init__(self, result: int, known: frozenset[int], needs: Mapping[int, frozenset[int]], indices: Mapping[int, int]) -> None:
        self.result, self.known, self.needs, self.indices = result, known, needs, indices
        self._undefined: dict[tuple[bool, ...], tuple[int, ...]] = {}

    def undefined(self, gradients: Sequence[Any]) -> tuple[int, ...]:
        """The places of inputs whose gradients are undefined, given the results' gradients, some of which are None."""
        defined = tuple([gradient is not None for gradient in gradients])
        found = self._undefined.get(defined)
        if found is None:
            there = frozenset(place for place, is_there in enumerate(defined) if is_there)
            found = () if there - self.known else tuple(place for place, needed in self.needs.items() if not needed & there)
            self._undefined[defined] = found
        return found


def with_undefined_gradients(fn: Callable[..., Any], boxed: bool, reached: Mapping[int, frozenset[int]]) -> Callable[..., Any]:
    """`fn`, such that inputs with these indices get no gradient from a backward pass that reaches none of the results in their set. `~index` in a set stands
    for an input that `fn` changes, which is a result, too.

    The first call that autograd records shows where the gradients go in and come out; if that can't be found out, `fn` runs as it is.
    """
    positions: Positions | None = None
    is_unknown = False
    needed = tuple(reached.items())  # the entry may be written to disk, with what this function refers to
    changed = tuple({~index for results in reached.values() for index in results if index < 0})

    def run(*args: Any) -> Any:
        nonlocal positions, is_unknown
        if is_unknown:
            return fn(*args)
        inputs = args[0] if boxed else args
        written = {~index: inputs[index] for index in changed}
        if positions is None:
            edges, references = [edge_of(value) for value in inputs], references_to_inner(inputs, dict(needed))
            results = fn(*args)
            positions = positions_of(dict(enumerate(results)) | written, edges, dict(needed))
            is_unknown = positions is None
            if positions is None:
                return results
        else:
            references = references_to_inner(inputs, positions.indices.values())
            results = fn(*args)
        node = origin_of(written[positions.result] if positions.result < 0 else results[positions.result], ())[0]
        if node is not None:
            inner = {place: references[index] for place, index in positions.indices.items() if index in references}
            node.register_hook(drops(positions, weakref.ref(node), inner))
        return results

    return run


def with_optional_gradients(fn: Callable[..., Any], boxed: bool, reach: OptionalReach) -> Callable[..., Any]:
    """`fn`, such that inputs get no gradient, and results require none, if in the call nothing leads to them but optional records that aren't there."""
    known: dict[tuple[bool, ...], OptionalGradients] | None = None
    counts, of_results, of_records = reach.counts, reach.of_results, reach.of_records  # the entry may be written to disk, as in the function above

    def run(*args: Any) -> Any:
        nonlocal known
        known = {} if known is None else known
        inputs = args[0] if boxed else args
        count, leaves = len(inputs), leaves_among(inputs)
        computed = {index: (edge_of(value), weakref.ref(value)) for index, value in enumerate(inputs) if index not in leaves and requires_grad(value)}
        del inputs
        results = fn(*args)
        present = tuple([bool(results[index]) for index in counts])
        found = known.get(present)
        if found is None:
            edges = {index: edge for index, (edge, _) in computed.items()} | {index: edge_of(leaf) for index, leaf in leaves.items()}
            found = known[present] = OptionalGradients.of(reached_by(of_results, of_records, present), results, [edges.get(index) for index in range(count)])
        positions = found.positions
        node = None if positions is None else origin_of(results[positions.result], ())[0]
        if node is not None and positions is not None:
            inner = {place: computed[index][1] for place, index in positions.indices.items() if index in computed}
            node.register_hook(drops(positions, weakref.ref(node), inner, anywhere=True))
        if not found.unrecorded:
            return results
        return [without_record(result) if index in found.unrecorded else result for index, result in enumerate(results)]

    return run


def leaves_among(inputs: Sequence[Any]) -> dict[int, torch.Tensor]:
    """The inputs that are leaves and require gradients, by their indices. It takes long to get their edges."""
    return {index: value for index, value in enumerate(inputs) if requires_grad(value) and value.is_leaf}


def without_record(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that requires no gradient: itself, unless it is a view, which can't let go of its record."""
    return tensor.detach() if tensor._is_view() else tensor.detach_()


@dataclass(frozen=True, slots=True)
class OptionalGradients:
    """Facts about the calls that have the same optional records.

    Attributes:
        positions: the places of gradients; None if all are defined, or the places can't be found.
        unrecorded: the indices of results that require no gradient.
    """

    positions: Positions | None
    unrecorded: frozenset[int]

    @staticmethod
    def of(reached: Mapping[int, frozenset[int]], results: Sequence[Any], edges: Sequence[Any]) -> OptionalGradients:
        """`reached`: for each result that may require a gradient, the inputs that its gradients reach; `edges`: those of the inputs' gradients."""
        unrecorded = frozenset(result for result, inputs in reached.items() if not inputs and requires_grad(results[result]))
        needs = {index: frozenset(result for result, inputs in reached.items() if index in inputs) for index, edge in enumerate(edges) if edge is not None}
        partly = {index: wanted for index, wanted in needs.items() if wanted != reached.keys()}
        return OptionalGradients(positions_of(dict(enumerate(results)), edges, partly), unrecorded)


def references_to_inner(inputs: Sequence[Any], indices: Iterable[int]) -> dict[int, Any]:
    """Weak references to those inputs with these indices that aren't leaves in this call, which no guard checks."""
    return {index: weakref.ref(inputs[index]) for index in indices if not inputs[index].is_leaf}


def drops(positions: Positions, node: Callable[[], Any], inner: Mapping[int, Callable[[], Any]], anywhere: bool = False) -> Callable[[Any, Any], Any]:
    """A hook on AOTAutograd's node. `inner`: the inputs that aren't leaves, by their places. `anywhere`: also before nodes that aren't AOTAutograd's.

    If the program has a hook on an input, that still gets zeros, because the hook may not expect None.
    """

    def drop(found: Sequence[Any], gradients: Sequence[Any]) -> Any:
        undefined = positions.undefined(gradients)
        if not undefined:
            return None
        following = node().next_functions
        kept = list(found)
        for place in undefined:
            leaf = getattr(following[place][0], "variable", None)
            tensor = inner[place]() if place in inner else leaf
            if not is_hooked(tensor) and (leaf is not None or (place in inner and (anywhere or is_aot_node(following[place][0])))):
                kept[place] = None
                if leaf is None and is_aot_node(following[place][0]):
                    gives_none(following[place][0])
        return tuple(kept)

    return drop


def gives_none(node: Any) -> None:
    """Have a node of AOTAutograd pass on no gradients instead of zeros if it gets none from any of its results in this backward pass."""
    next_functions = node.next_functions

    def drop(found: Sequence[Any], gradients: Sequence[Any]) -> Any:
        handle.remove()
        if any(gradient is not None for gradient in gradients):
            return None
        kept = list(found)
        for place, (following, _) in enumerate(next_functions):
            leaf = getattr(following, "variable", None)
            if leaf is not None and not is_hooked(leaf):
                kept[place] = None
            elif leaf is None and following is not None and is_aot_node(following):
                kept[place] = None
                gives_none(following)
        return tuple(kept)

    handle = node.register_hook(drop)


def is_hooked(tensor: torch.Tensor | None) -> bool:
    """Return whether something of the program's runs when a gradient reaches a tensor."""
    return tensor is not None and bool(tensor._backward_hooks or getattr(tensor, "_post_accumulate_grad_hooks", None))


def is_aot_node(node: Any) -> bool:
    return type(node).__name__ == AOT_NODE


def positions_of(results: Mapping[int, Any], edges: Sequence[Any], reached: Mapping[int, frozenset[int]]) -> Positions | None:
    """The places at which the gradients go in and come out, after the first call; `edges`: the edges of the inputs' gradients. None if they can't be found."""
    outside = [edge.node for edge in edges if edge is not None]
    origins = {index: (node, place) for index, result in results.items() for node, place in [origin_of(result, outside)] if node is not None}
    given = {index: origin for index, origin in origins.items() if not any(origin[0] is node for node in outside)}
    views_of_inputs = origins.keys() - given.keys()  # their gradients don't pass AOTAutograd's node
    if len({id(node) for node, _ in given.values()}) != 1:
        return None
    result, (node, _) = next(iter(given.items()))
    places = {(id(following), number): place for place, (following, number) in enumerate(node.next_functions) if following is not None}
    needs: dict[int, frozenset[int]] = {}
    indices: dict[int, int] = {}
    for index, wanted in reached.items():
        edge = edges[index]
        place = None if edge is None else places.get((id(edge.node), edge.output_nr))
        if place is not None and wanted - views_of_inputs <= given.keys():
            needs[place] = frozenset(given[result][1] for result in wanted - views_of_inputs)
            indices[place] = index
    return Positions(result, frozenset(place for _, place in given.values()), needs, indices) if needs else None


def origin_of(result: Any, outside: Sequence[Any]) -> tuple[Any, int]:
    """The node of AOTAutograd that has returned a result, or the base of which the result is a view, and the place among the node's results.

    If the result is a view of an input, it leads to one of the nodes `outside` first: then it is that node. None if there is neither.
    """
    node, place = (result.grad_fn, result.output_nr) if isinstance(result, torch.Tensor) else (None, 0)
    for _ in range(MOST_VIEWS):
        if node is None or any(node is other for other in outside) or is_aot_node(node):
            return node, place
        if len(node.next_functions) != (2 if type(node).__name__ == COPY_NODE else 1):
            break
        node, place = node.next_functions[-1]
    return None, 0
