"""Compiles the pieces of a graph, equal ones once, and makes the callable that runs them in order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch.fx._lazy_graph_module import _LazyGraphModule

from framejit.backends.memory import memory_of, outputs_of
from framejit.backends.regions.pieces import Piece, is_number, value_of
from framejit.backends.request import (
    BackendGuard,
    FrozenInputGuard,
    GraphRequest,
    InputInfo,
    SameTensorGuard,
    ShapeGuard,
    StorageOverlapGuard,
)
from framejit.backends.undefined_gradients import with_undefined_gradients
from framejit.backends.view_geometry import number_nodes, symbols_of
from framejit.errors import BackendError, FramejitError
from framejit.quick_dataclass import dataclass
from framejit.saved.remade import made_by

CompiledPiece = tuple[Callable[..., Any], bool, list[BackendGuard]]
"""A callable, whether it is boxed, and the backend's guards, whose indices are those of the piece's inputs."""


@dataclass(frozen=True, slots=True)
class Called:
    """A piece, and the callable of its kind."""

    piece: Piece
    fn: Callable[..., Any]
    boxed: bool


def compile_pieces(request: GraphRequest, pieces: Sequence[Piece], compile_one: Callable[[GraphRequest], CompiledPiece]) -> CompiledPiece:
    """Compile each kind of piece once. `compile_one` compiles the graph of a request. Raises BackendError."""
    compiled: dict[Hashable, CompiledPiece] = {}
    try:
        with request.backend.for_several():
            for number, piece in enumerate(pieces):
                if piece.key not in compiled:
                    compiled[piece.key] = compile_kind(request_of(request, piece, number), compile_one)
    except FramejitError:
        raise
    except Exception as error:
        raise BackendError(request.backend.name, f"raised {type(error).__name__}: {error}") from error
    called: list[Called] = []
    guards: list[BackendGuard] = []
    for piece in pieces:
        fn, boxed, asked = compiled[piece.key]
        called.append(Called(piece, fn, boxed))
        guards += guards_on(request, piece, asked)
    return in_turn(request.gm.graph, called), True, guards


def compile_kind(request: GraphRequest, compile_one: Callable[[GraphRequest], CompiledPiece]) -> CompiledPiece:
    """Compile a piece. Gradients that don't reach its inputs stay undefined."""
    reached = {} if request.reaches is None else request.reaches(request.gm.graph, ())
    fn, boxed, guards = compile_one(request)
    return with_undefined_gradients(fn, boxed, reached) if reached else fn, boxed, guards


def request_of(request: GraphRequest, piece: Piece, number: int) -> GraphRequest:
    """The request to compile a piece."""
    infos = dict(zip(request.gm.graph.find_nodes(op="placeholder"), request.inputs, strict=True))
    gm, placeholders = graph_of(request.gm, piece)
    inputs = [info_of(infos.get(node), node, placeholder) for node, placeholder in zip(piece.inputs, placeholders, strict=True)]
    changed = {memory_of(list(infos)[index]) for index in request.changed}
    indices = tuple([index for index, node in enumerate(piece.inputs) if memory_of(node) in changed and node in infos])
    return replace(request, gm=gm, inputs=inputs, spent={}, changed=indices, piece=number)


def info_of(info: InputInfo | None, node: fx.Node, placeholder: fx.Node) -> InputInfo:
    """The input of a piece that stands for a node of the graph. `info`: the graph's own, if the node is one of its inputs."""
    if info is None:
        return InputInfo(placeholder.name, f"framejit.{node.name}", value_of(node), is_computed=True)
    return replace(info, name=placeholder.name)


def graph_of(gm: fx.GraphModule, piece: Piece) -> tuple[fx.GraphModule, list[fx.Node]]:
    """A piece as a graph, with its placeholders. Numbers from outside are computed from the graph's symbols."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in piece.inputs:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta["example_value"] = value_of(node)
    placeholders = list(copies.values())
    symbols = symbols_of(placeholders)
    for node in piece.nodes:
        for used in node.all_input_nodes:
            if used not in copies and is_number(used) and used not in piece.nodes:
                (copies[used],) = number_nodes(graph, [value_of(used)], symbols)
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple([copies[node] for node in piece.results]))
    return _LazyGraphModule(gm, graph), placeholders


def guards_on(request: GraphRequest, piece: Piece, asked: Sequence[BackendGuard]) -> Iterator[BackendGuard]:
    """The guards of a piece's kind, on the inputs of the whole graph."""
    placeholders = {node: index for index, node in enumerate(request.gm.graph.find_nodes(op="placeholder"))}
    index = [placeholders.get(node) for node in piece.inputs]

    def moved(indices: Sequence[int]) -> tuple[int, ...]:
        return tuple([place for i in indices if (place := index[i]) is not None])

    for guard in asked:
        if isinstance(guard, ShapeGuard):
            yield guard
        elif isinstance(guard, StorageOverlapGuard):
            yield StorageOverlapGuard(moved(guard.overlapping), moved(guard.separate))
        elif isinstance(guard, SameTensorGuard):
            yield SameTensorGuard(*moved((guard.first, guard.second)))
        else:
            assert isinstance(guard, FrozenInputGuard)
            yield FrozenInputGuard(*moved((guard.index,)))


def in_turn(graph: fx.Graph, called: Sequence[Called]) -> Callable[[list[Any]], Any]:
    """A boxed callable that runs the pieces in order. It drops each value after its last use, and passes it on as the only one who holds it.

    In the first call, `laid_out` makes sure that values are laid out as in the trace, for which the next piece has been compiled.
    """
    placeholders, outputs = graph.find_nodes(op="placeholder"), outputs_of(graph)
    names = {node: f"v{number}" for number, node in enumerate(itertools.chain(placeholders, *[each.piece.results for each in called]))}
    crossing = {node for each in called for node in each.piece.operands}
    last = {node: number for number, each in enumerate(called) for node in each.piece.inputs} | dict.fromkeys(outputs, len(called))
    functions: dict[str, Any] = {}
    lines = ["def run(inputs):", f"    [{', '.join(map(names.__getitem__, placeholders))}] = inputs", "    inputs.clear()"]
    for number, each in enumerate(called):
        name = next((name for name, fn in functions.items() if fn is each.fn), f"piece_{len(functions) + 1}")
        functions[name] = each.fn
        taken = ", ".join([names[node] for node in each.piece.inputs])
        results = [names[node] for node in each.piece.results]
        dropped = [names[node] for node in each.piece.inputs if last[node] == number]
        lines.append(f"    taken = [{taken}]")
        lines += [f"    del {', '.join(dropped)}"] if dropped else []
        given = f"[{', '.join(results)}] = " if results else ""
        lines.append(f"    {given}{name}({'taken' if each.boxed else '*taken'})")
        if laid := [(names[node], strides) for node in each.piece.results if node in crossing and (strides := fixed_strides(value_of(node)))]:
            lines.append("    if laid_out is not None:")
            lines += [f"        {value} = laid_out({value}, {strides})" for value, strides in laid]
    lines.append(f"    return [{', '.join(names[node] if isinstance(node, fx.Node) else repr(node) for node in outputs)}]")
    return runner("\n".join(lines), functions)


def runner(source: str, callables: Mapping[str, Callable[..., Any]]) -> Callable[[list[Any]], Any]:
    """The callable of `in_turn`, from its source and the callables of the pieces."""
    functions: dict[str, Any] = {"laid_out": LaidOut(), **callables}
    exec(compile(source, "<framejit regions>", "exec"), functions)
    run = functions["run"]

    def first(inputs: list[Any]) -> Any:
        results = run(inputs)
        if functions["laid_out"] is not None and not functions["laid_out"].has_changed:
            functions["laid_out"] = None
        return results

    return made_by(first, runner, source, dict(callables))


def fixed_strides(value: Any) -> tuple[int, ...] | None:
    """The strides of a tensor in the trace; None if some vary."""
    strides = value.stride() if isinstance(value, torch.Tensor) else ()
    return strides if all(type(stride) is int for stride in strides) else None


class LaidOut:
    """Gives a tensor the layout that it has in the trace. A backend may choose another one for its results, though none is known to do so."""

    def __init__(self) -> None:
        self.has_changed = False

    def __call__(self, tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
        if all(size <= 1 or one == other for size, one, other in zip(tensor.size(), tensor.stride(), strides)):
            return tensor
        self.has_changed = True
        return torch.empty_strided(tensor.size(), strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
