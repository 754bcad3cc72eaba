"""`GraphResult`, the finished graph of a trace, and functions that find its unneeded nodes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from types import CodeType
from typing import Any

import torch
from torch import fx

from framejit import breaks
from framejit.errors import UserFrame
from framejit.graph.autograd_node import spent_error
from framejit.graph.global_modes import Modes
from framejit.graph.gradient_paths import gradient_paths
from framejit.graph.inputs import GraphInput
from framejit.graph.prune import output_nodes
from framejit.graph.trace_state import TraceState
from framejit.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class GraphResult:
    """A finished graph. `gm` takes `inputs` in order and returns a tuple of the requested outputs, in order.

    `mutated`: indices of the inputs that the graph changes in place. `has_effects`: it must run even if none of its outputs is needed. `repeatable`: if it
    raises, it has changed nothing but random number generators and the data of `put_back`. `late_checks`: checks that may fail after other changes.
    `modes`: the global modes at its start. `place`: where the outermost frame was at the first operator. `spent`: indices of outputs that the graph returns
    detached, because their autograd record is used up, and autograd's error message for each. `draws`: it may draw from torch's CPU generator. `copies`: for
    each call of a module that was copied, its nodes, each with the one that it is a copy of. `put_back`: all of `mutated`, if these inputs can get their old
    data back (put_back.py).
    """

    gm: fx.GraphModule
    inputs: tuple[GraphInput, ...]
    mutated: tuple[int, ...]
    has_effects: bool
    repeatable: bool
    late_checks: tuple[fx.Node, ...]
    modes: Modes
    place: UserFrame | None
    spent: Mapping[int, str] = field(default_factory=dict)
    draws: bool = True
    copies: Sequence[Mapping[fx.Node, fx.Node]] = ()
    put_back: tuple[int, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to run, since the graph has neither outputs nor effects."""
        return not self.has_effects and not output_nodes(self.gm.graph)


def check_moved(state: TraceState, moved: Sequence[tuple[fx.Node, tuple[CodeType, int], str]], outputs: Sequence[fx.Node]) -> None:
    """Restart the trace if gradients of an output would reach a node that only stands for one of the program's leaves, which was given other memory, or thawed.

    `moved`: the nodes that stand for such leaves, each with the instruction that has stored to an attribute, and the attribute's name. The graph is split where
    autograd first records an operator on one of them, so that a loop that stores to many is in one graph.
    """
    stored = {id(node.meta["example_value"]): (place, name) for node, place, name in moved}
    for output in outputs if moved else ():
        fake = output.meta["example_value"]
        reached = gradient_paths([fake]).leaves if isinstance(fake, torch.Tensor) and fake.requires_grad else ()
        place, name = next((stored[id(leaf)] for leaf in reached if id(leaf) in stored), (None, ""))
        if place is not None and spent_error(fake) is None:
            place = place_of_use(state, {node for node, _, _ in moved}) or place
            state.vm.restart(place, breaks.MutatedInputUnsupported(f"{name} of a tensor of which gradients are asked outside"))


def place_of_use(state: TraceState, leaves: set[fx.Node]) -> tuple[CodeType, int] | None:
    """The instruction at which autograd first records an operator on one of these leaves; None if there is none, or if the trace has run it before."""
    users = {user for leaf in leaves for user in leaf.users if has_record(user.meta["example_value"])}
    before = set()
    for node in next(iter(leaves)).graph.nodes if users else ():
        place = None if node.op == "placeholder" else state.instruction_of(node)
        if node in users:
            return None if place in before else place
        before.add(place)
    return None


def has_record(value: Any) -> bool:
    """Return whether a result of a node is a tensor that autograd has computed, or holds such."""
    return any(isinstance(part, torch.Tensor) and part.grad_fn is not None for part in (value if isinstance(value, (tuple, list)) else (value,)))


def module_with(modules: dict[str, fx.GraphModule]) -> torch.nn.Module:
    """A module that holds inner graphs by name."""
    holder = torch.nn.Module()
    for name, module in modules.items():
        holder.add_module(name, module)
    return holder


def unneeded(nodes: Iterable[fx.Node], outputs: Sequence[fx.Node], is_wanted: Callable[[fx.Node], bool]) -> list[fx.Node]:
    """The nodes among `nodes` (last first) that are wanted and that neither the outputs nor other wanted nodes are computed from, first to last."""
    needed: set[fx.Node] = set()
    waiting = list(outputs)
    found = []

    def need() -> None:
        while waiting:
            node = waiting.pop()
            if node not in needed:
                needed.add(node)
                waiting.extend(node.all_input_nodes)

    need()
    for node in nodes:
        if node not in needed and is_wanted(node):
            found.append(node)
            waiting.append(node)
            need()
    return found[::-1]


def is_computed(value: Any) -> bool:
    """Return whether a value is a tensor that is no view of another."""
    return isinstance(value, torch.Tensor) and not value._is_view()


def computed_by(node: fx.Node) -> fx.Node | None:
    """A tensor that a node computes and that isn't a view: the node itself, or an item of its result; None if the graph has none."""
    items = [user for user in node.users if user.target is operator.getitem]
    return next((found for found in (node, *items) if is_computed(found.meta["example_value"])), None)
