"""Cuts a graph into pieces that run one after the other, so that pieces which repeat are equal.

    embedding | layer 0 | layer 1 | layer 2 | head        three pieces to compile, five calls

Each piece is a graph of its own. A graph isn't cut if a piece could see that it is one: if a piece changes a tensor that another piece has made, if it leaves
torch's modes other than it found them, or if its backward pass is a part of the graph.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.autograd.grad_mode import _enter_inference_mode, _exit_inference_mode

from framejit.backends.memory import memory_of
from framejit.backends.regions.description import Indescribable, labels, of_nodes, of_tensor
from framejit.backends.regions.repeats import Repeat, repeats
from framejit.backends.regions.work import work_of
from framejit.backends.request import GraphRequest, InputInfo
from framejit.graph.function_views import views_with_backward
from framejit.graph.metadata import CHANGES, OF_BACKWARD
from framejit.graph.statistics import changed_statistics
from framejit.quick_dataclass import dataclass
from framejit.torch_state.symbols import sympy
from framejit.torch_state.torch_modes import MODE_CHANGES, exit_keeping_casts

SET_GRAD = torch._C._set_grad_enabled
ENTERS = frozenset({_enter_autocast, _enter_inference_mode})
EXITS = frozenset({_exit_autocast, exit_keeping_casts, _exit_inference_mode})
UNCUT = 1000
"""The cost of a cut where the graph can't be cut."""


class Uncuttable(Exception):
    """Signal: the graph must stay whole."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a graph. `operands`: the tensors from outside that it uses; `results`: the values of its nodes that are used outside; `symbols`: the inputs of
    the graph that hold the symbols of its sizes. `key`: pieces with equal keys have the same code."""

    nodes: tuple[fx.Node, ...]
    operands: tuple[fx.Node, ...]
    symbols: tuple[fx.Node, ...]
    results: tuple[fx.Node, ...]
    key: Hashable

    @property
    def inputs(self) -> tuple[fx.Node, ...]:
        """The nodes that stand for its inputs, in order."""
        return self.symbols + self.operands


def value_of(node: fx.Node) -> Any:
    """A node's value in the trace."""
    return node.meta.get("example_value")


def is_number(node: fx.Node) -> bool:
    return isinstance(value_of(node), torch.SymInt)


def producer(node: fx.Node) -> fx.Node:
    """The node that computes a value: for an item of several results, the operator that has these."""
    while node.target is operator.getitem and isinstance(node.args[0], fx.Node) and not isinstance(value_of(node.args[0]), torch.Tensor):
        node = node.args[0]
    return node


def cut(request: GraphRequest, least: int, work: int) -> list[Piece]:
    """The pieces of the request's graph, in order. The graph is cut where at least `least` nodes repeat. There, each piece does at least this `work`
    (see work.py), as far as there are enough repetitions. Raises Uncuttable."""
    graph = request.gm.graph
    nodes = in_groups(graph)
    if len(nodes) <= least or not all(map(is_movable, nodes)) or any(views_with_backward(graph)):
        raise Uncuttable
    try:
        found = [in_larger_parts(repeat, nodes, work) for repeat in repeats(labels(nodes), crossings(nodes, request.modes.grad), least)]
    except Indescribable:
        raise Uncuttable from None
    parts = [part for part in parted(nodes, found) if part]
    if len(parts) < 2 or not all(keeps_modes(part, request.modes.grad) for part in parts):
        raise Uncuttable
    check_changes(request, parts)
    return list(pieces_of(request, parts))


def in_groups(graph: fx.Graph) -> list[fx.Node]:
    """The nodes between inputs and output, in order, but each item of a node's results right after it."""
    nodes = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
    place = {node: number for number, node in enumerate(nodes)}
    return sorted(nodes, key=lambda node: (place.get(producer(node), place[node]), place[node]))


def is_movable(node: fx.Node) -> bool:
    """Return whether a node could be in a graph that is only a part of the trace's."""
    value = value_of(node)
    return OF_BACKWARD not in node.meta and node.target is not torch.autograd.grad and not isinstance(value, (torch.SymFloat, torch.SymBool))


def crossings(nodes: Sequence[fx.Node], grad: bool) -> list[int]:
    """For each place between nodes, the cost of a cut there: the number of tensors that are computed before it and used after it, or far more where the graph
    can't be cut. `grad`: the grad mode in front of the nodes."""
    change = [0] * (len(nodes) + 1)
    for first, last, cost in spans(nodes, grad):
        change[first + 1] += cost
        if last < len(nodes):
            change[last + 1] -= cost
    return list(itertools.accumulate(change))


def spans(nodes: Sequence[fx.Node], grad: bool) -> Iterator[tuple[int, int, int]]:
    """The spans of values, of changed memory and of switched modes: the numbers of their first and last nodes, and the cost of a cut in between."""
    place = {node: number for number, node in enumerate(nodes)}
    made: dict[int | None, int] = {}
    switched = None
    for number, node in enumerate(nodes):
        value = value_of(node)
        last = max((place.get(user, len(nodes)) for user in node.users), default=number)
        yield number, last, 1 if isinstance(value, torch.Tensor) else 0 if isinstance(value, torch.SymInt) else UNCUT
        made.setdefault(memory_of(node), number)
        for memory in changed_by(node):
            yield made.get(memory, number), number, UNCUT
        if node.target in EXITS:
            yield place.get(node.args[0], 0), number, UNCUT  # type: ignore[arg-type]
        elif node.target is SET_GRAD and node.args[0] != grad:
            switched = number if switched is None else switched
        elif node.target is SET_GRAD and switched is not None:
            yield switched, number, UNCUT
            switched = None


def in_larger_parts(repeat: Repeat, nodes: Sequence[fx.Node], work: int) -> Repeat:
    """A repeat whose parts do at least this work, as far as its length allows: each consists of several parts of the given one."""
    own = work_of(nodes[repeat.start : repeat.start + repeat.period])
    times = min(-(-work // max(own, 1)), repeat.count)
    if times <= 1:
        return repeat
    times = min(range(times, min(2 * times, repeat.count) + 1), key=lambda several: several + repeat.count % several)
    return Repeat(repeat.start, repeat.period * times, repeat.count // times)


def parted(nodes: Sequence[fx.Node], found: Iterable[Repeat]) -> Iterator[Sequence[fx.Node]]:
    """The nodes of each piece."""
    before = 0
    for place in sorted({0, len(nodes)} | {place for repeat in found for place in repeat.cuts}):
        yield nodes[before:place]
        before = place


def keeps_modes(nodes: Iterable[fx.Node], grad: bool) -> bool:
    """Return whether nodes leave torch's modes as they are in front of them. `grad`: the grad mode there."""
    entered, grad_now = set[Any](), grad
    for node in nodes:
        if node.target is SET_GRAD:
            grad_now = bool(node.args[0])
        elif node.target in ENTERS:
            entered.add(node)
        elif node.target in EXITS:
            if node.args[0] not in entered:
                return False
            entered.discard(node.args[0])
        elif node.target in MODE_CHANGES:
            return False
    return not entered and grad_now == grad


def check_changes(request: GraphRequest, parts: Sequence[Sequence[fx.Node]]) -> None:
    """Raise Uncuttable if a piece changes memory of which it has more than one tensor from outside, or might have.

    It may change memory that it has made, and that of an input of the graph if no other tensor of this memory comes from outside.
    """
    of_inputs = Counter(memory_of(node) for node in request.gm.graph.find_nodes(op="placeholder"))
    made_in: dict[int | None, int] = {}
    crossing: set[int | None] = set()
    for number, part in enumerate(parts):
        inside = set(part)
        for node in part:
            made_in.setdefault(memory_of(node), number)
            if any(user not in inside and user.op != "output" for user in node.users):
                crossing.add(memory_of(node))
    for number, part in enumerate(parts):
        for memory in {memory for node in part for memory in changed_by(node)}:
            if made_in.get(memory) != number if memory not in of_inputs else memory in crossing or of_inputs[memory] > 1:
                raise Uncuttable


def changed_by(node: fx.Node) -> set[int]:
    """The memory of the tensors that a node may change. Raises Uncuttable if it isn't known."""
    arguments = node.meta.get(CHANGES, ())
    found = {memory for used in arguments if (memory := memory_of(used)) is not None}
    if len(found) < len({memory_of(used) for used in arguments}):
        raise Uncuttable
    return found | {fake.untyped_storage()._cdata for fake in changed_statistics(node)}


def pieces_of(request: GraphRequest, parts: Sequence[Sequence[fx.Node]]) -> Iterator[Piece]:
    """The pieces that consist of these nodes."""
    graph = request.gm.graph
    infos = dict(zip(graph.find_nodes(op="placeholder"), request.inputs, strict=True))
    holders = {value_of(node).node.expr: node for node in infos if is_number(node)}
    for part in parts:
        inside = set(part)
        outside = list(dict.fromkeys(used for node in part for used in node.all_input_nodes if used not in inside))
        results = tuple([node for node in part if leaves(node, inside)])
        operands = tuple([node for node in outside if not is_number(node)])
        if not all(can_cross(value_of(node)) or is_number(node) for node in (*results, *operands)):
            raise Uncuttable
        symbols = symbols_in([*map(value_of, outside), *map(value_of, part)])
        if not symbols <= holders.keys():
            raise Uncuttable
        held = tuple(sorted((holders[symbol] for symbol in symbols), key=lambda node: node.name))
        try:
            described = tuple([(role(infos.get(node)), of_tensor(value_of(node))) for node in operands])
            key = described, of_nodes(part, outside), tuple([part.index(node) for node in results]), tuple(held)
        except Indescribable:
            raise Uncuttable from None
        numbers = tuple([value_of(node).node.expr if is_number(node) else None for node in outside])
        yield Piece(tuple(part), operands, held, results, (key, numbers))


def can_cross(value: Any) -> bool:
    """Return whether a value can be passed from piece to piece: a tensor whose elements are what lies in memory."""
    return isinstance(value, torch.Tensor) and not value.is_conj() and not value.is_neg()


def leaves(node: fx.Node, inside: set[fx.Node]) -> bool:
    """Return whether a node's value is a result of the piece that consists of the nodes `inside`. Numbers that other pieces use are computed there again."""
    return any(user not in inside and (user.op == "output" or not is_number(node)) for user in node.users)


def symbols_in(values: Iterable[Any]) -> set[sympy.Basic]:
    """The symbols in numbers, and in the sizes of tensors."""
    found: set[sympy.Basic] = set()
    for value in values:
        if isinstance(value, torch.SymInt):
            found |= value.node.expr.free_symbols
        elif isinstance(value, torch.Tensor):
            found |= {symbol for number in (*value.size(), *value.stride()) if isinstance(number, torch.SymInt) for symbol in number.node.expr.free_symbols}
        elif isinstance(value, (tuple, list)):
            found |= symbols_in(value)
    return found


def role(info: InputInfo | None) -> Hashable:
    """Return the facts about an input of the graph by which backends treat it differently; None for a value that another piece has computed."""
    if info is None:
        return None
    return info.is_parameter, info.is_buffer, info.static, info.is_subclass, info.is_wrapper, info.is_state, info.symbolic_context is None
