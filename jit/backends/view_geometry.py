"""Views of inputs that a graph changes. If sizes, strides or offsets vary, they are made after the graph, which returns these numbers instead."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from framejit.backends.memory import memory_of, outputs_of
from framejit.backends.request import GraphRequest
from framejit.quick_dataclass import dataclass
from framejit.torch_state.symbols import interp, reference, sympy


@dataclass(frozen=True, slots=True)
class VaryingView:
    """A result with this index is a view of the input that the graph returns there: its sizes, strides and offset follow the graph's other results, from
    `first` on. It has an autograd record if it is `recorded`. The offset counts from the beginning of the input, or if the view `is_placed` by the program,
    from that of the storage."""

    index: int
    dims: int
    first: int
    recorded: bool
    is_placed: bool

    def of(self, base: torch.Tensor, numbers: Sequence[int]) -> torch.Tensor:
        """The view."""
        own = numbers[self.first : self.first + 2 * self.dims + 1]
        with torch.set_grad_enabled(self.recorded):
            view = base.as_strided(own[: self.dims], own[self.dims : -1], own[-1] + (0 if self.is_placed else base.storage_offset()))
        return view if self.recorded else view.detach()


def take_out_views(request: GraphRequest) -> Callable[[Callable[..., Any]], Callable[..., Any]] | None:
    """Take such views with varying numbers out of `request.gm`, in place, and make AOTAutograd see the others as views; returns a function that makes a
    callable for the graph return what it did before, None if nothing has changed.

    AOTAutograd regenerates views of inputs. If their numbers vary (`x[i]`), it uses the layout of the graph's result, a view of the input's new value.
    That begins where its own memory does, and Inductor may lay it out differently: in `x.t()[0] = 9; return x[i]` the result could be a column of `x`, or lie
    in another part of the tensor that `x` is a part of.
    """
    if not request.changed:
        return None
    graph = request.gm.graph
    placeholders = graph.find_nodes(op="placeholder")
    changed: dict[int | None, fx.Node] = {memory: placeholders[index] for index in request.changed if (memory := memory_of(placeholders[index])) is not None}
    results, numbers = list(outputs_of(graph)), list[Any]()
    bases = {changed[memory]: None for node in results if (memory := memory_of(node)) in changed and is_one_of_several(node)}
    symbols = symbols_of(placeholders)
    views = []
    for index, node in enumerate(results):
        base = changed.get(memory_of(node)) if node.op != "placeholder" else None
        is_placed = base is not None and is_placed_by_program(node)
        if base is not None and (geometry := varying_geometry(node, base, is_placed)) and free_symbols(geometry) <= symbols.keys():
            fake = node.meta["example_value"]
            views.append(VaryingView(index, fake.dim(), len(numbers), fake.requires_grad, is_placed))
            with graph.inserting_before(graph.output_node()):
                numbers += number_nodes(graph, geometry, symbols)
            results[index] = base
    if not views and not bases:
        return None
    graph.output_node().args = ((*results, *numbers, *bases),)
    request.gm.recompile()
    return lambda fn: giving_views(fn, views, len(results))


def is_one_of_several(node: fx.Node) -> bool:
    """Return whether a result that requires a gradient is a view of an operator with several results, such as `unbind`, or a view of one.

    AOTAutograd returns such views of an input as if they had memory of their own, unless the graph also returns another tensor that lies there. If the
    graph changes the input without a record, their memory is that of its new value, which is then copied to the input.
    """
    return node.meta["example_value"].requires_grad and any(made_of.target is operator.getitem and gives_several(made_of.args[0]) for made_of in lineage(node))


def gives_several(node: Any) -> bool:
    """Return whether the value of a node is a tuple or a list."""
    return isinstance(node, fx.Node) and isinstance(node.meta.get("example_value"), (tuple, list))


def varying_geometry(node: fx.Node, base: fx.Node, is_placed: bool) -> list[Any]:
    """Sizes, strides and offset of a view of `base`; empty if they don't vary, or if its elements aren't simply a part of `base`.

    No guard says where an input begins in its storage. So the offset of a view that the program hasn't placed there counts from where `base` begins.
    """
    view, whole = node.meta["example_value"], base.meta["example_value"]
    if (view.dtype, view.is_conj(), view.is_neg()) != (whole.dtype, whole.is_conj(), whole.is_neg()):
        return []
    numbers = [*view.size(), *view.stride(), view.storage_offset() - (0 if is_placed else whole.storage_offset())]
    return numbers if any(isinstance(number, torch.SymInt) for number in numbers) else []


def is_placed_by_program(node: fx.Node) -> bool:
    """Return whether a view, or one that it is a view of, was made by `as_strided` with an offset, which counts from the beginning of the storage."""
    return any(has_offset(made_of) for made_of in lineage(node))


def lineage(node: fx.Node) -> Iterator[fx.Node]:
    """A view, and the nodes that it is a view of, but for a graph's input."""
    memory = memory_of(node)
    made_of: fx.Node | None = node
    while made_of is not None and made_of.op != "placeholder":
        yield made_of
        gives_item = made_of.target is operator.getitem  # of a tuple, or of a tensor
        made_of = next((used for used in made_of.all_input_nodes if gives_item or memory_of(used) == memory), None)


def has_offset(node: fx.Node) -> bool:
    """Return whether a node is a call of `as_strided` with an offset."""
    name = str(getattr(node.target, "__name__", node.target))
    return name.startswith("as_strided") and (node.args[3] if len(node.args) > 3 else node.kwargs.get("storage_offset")) is not None


def symbols_of(placeholders: Sequence[fx.Node]) -> dict[sympy.Basic, fx.Node]:
    """The symbols that a graph gets as numbers, with their placeholders."""
    values = [(node.meta["example_value"], node) for node in placeholders]
    return {value.node.expr: node for value, node in values if isinstance(value, torch.SymInt)}


def free_symbols(numbers: Sequence[Any]) -> set[sympy.Basic]:
    """The symbols in these numbers."""
    return {symbol for number in numbers if isinstance(number, torch.SymInt) for symbol in number.node.expr.free_symbols}


def number_nodes(graph: fx.Graph, numbers: Sequence[Any], symbols: dict[sympy.Basic, fx.Node]) -> Iterator[Any]:
    """The nodes that compute these numbers in a graph that gets the symbols in them."""
    tracer = fx.proxy.GraphAppendingTracer(graph)
    proxies: Any = {symbol: fx.Proxy(node, tracer) for symbol, node in symbols.items()}
    for number in numbers:
        result = interp.sympy_interp(reference.PythonReferenceAnalysis, proxies, number.node.expr) if isinstance(number, torch.SymInt) else number
        if isinstance(result, fx.Proxy):
            result.node.meta["example_value"] = number
            yield result.node
        else:
            yield int(result)


def giving_views(fn: Callable[..., Any], views: Sequence[VaryingView], count: int) -> Callable[..., Any]:
    """`fn`, which returns `count` results, and more after them, with the views made from the numbers that follow the results."""

    def run(*args: Any) -> Any:
        given = fn(*args)
        results, numbers = list(given[:count]), given[count:]
        for view in views:
            results[view.index] = view.of(results[view.index], numbers)
        return results

    return run
