"""Tensors that a branch on data gives, of which the program may have had one before: in the graph they are copies, which nothing may tell from the original.

In `if c: y = x * 2` with `y = x` before it, `y` is `x` itself in some calls. The node of the branch gives a copy in these. That is right as long as nothing
changes either of them in place, asks whether they are the same, or gets both. Otherwise the trace is restarted, and breaks at the branch.

With the backend eager, the node gives `x` itself, so the program may get both. The trace still takes it for a copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from types import CodeType

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.utils import _pytree as pytree

from framejit import breaks
from framejit.graph.fake import storages
from framejit.graph.metadata import CHANGES
from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.trace_state import TraceState
from framejit.guards.source import MISSING
from framejit.quick_dataclass import dataclass

ASKS_FOR_ITSELF = re.compile("register_.*hook|retain_grad|requires_grad_|grad|set_|detach_")
"""The names of operations that are about a tensor itself, and not only about its data."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A tensor that a branch gives. `originals`: nodes of the tensors of which it may be a copy; `place`: the instruction that branches; `reason`: that for
    which it runs natively if need be."""

    node: fx.Node
    originals: tuple[fx.Node, ...]
    place: tuple[CodeType, int]
    reason: breaks.Break


def itself(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as it leaves a way of a branch: itself, and in a trace a copy."""
    is_known = type(tensor) is torch.Tensor and not torch._is_functional_tensor(tensor) and get_proxy_mode() is None
    return tensor if is_known else tensor.clone()


class JoinedTensors:
    """The tensors of one trace that branches give and that may be copies."""

    def __init__(self, state: TraceState) -> None:
        self._state = state
        self.made: tuple[Joined, ...] = ()
        self.are_recorded = False
        """True if a branch gives tensors that require a gradient. The backward of a torch.cond can't be differentiated in turn (torch 2.13)."""

    def add(self, joined: Joined) -> None:
        """Note a tensor that a branch gives."""
        self._state.trail.set(self, "made", (*self.made, joined))

    def originals_of(self, memory: set[int]) -> tuple[fx.Node, ...]:
        """The nodes of the tensors of which the tensors in these storages may be copies."""
        return tuple(dict.fromkeys(node for joined in self.made if memory_of([joined.node]) & memory for node in joined.originals))

    def check_kept_apart(self, nodes: Iterable[fx.Node]) -> None:
        """Restart the trace if one of these nodes shares memory with a tensor that may be a copy, or with one of which that may be a copy."""
        memory = memory_of(nodes)
        for joined in self.made:
            if memory_of([joined.node, *joined.originals]) & memory:
                self._state.vm.restart(joined.place, joined.reason)

    def check_leaving(self, outputs: Sequence[fx.Node]) -> None:
        """Restart the trace if a tensor of a branch leaves the graph as well as one of which it may be a copy, and for questions about addresses. With the
        backend eager, the two are one tensor where eager has one, so they may leave unless one of them has something more."""
        inputs, leaving = storages(self._state.input_fakes()), memory_of(outputs)
        copies = self._state.is_one_autograd_node
        for joined in self.made:
            mine, originals = memory_of([joined.node]), memory_of(joined.originals)
            others = [other for other in self.made if other is not joined and memory_of([other.node]) & leaving and memory_of(other.originals) & originals]
            both_leave = bool(mine & leaving) and bool(originals & (inputs | leaving) or others)
            if self._state.storages or (both_leave and (copies or self._has_more([joined.node, *joined.originals]))):
                self._state.vm.restart(joined.place, joined.reason)

    def _has_more(self, nodes: Iterable[fx.Node]) -> bool:
        """Return whether one of these tensors has attributes, or is one of which the trace has changed more than its data."""
        found = [self._state.fakes.object_of(node.meta["example_value"]) for node in nodes]
        return any(obj is None or obj.attrs is not None or obj.has_more() or (obj.data, obj.requires_grad) != (MISSING, MISSING) for obj in found)


def memory_of(nodes: Iterable[fx.Node]) -> set[int]:
    """The keys of the storages of the tensors that some nodes give."""
    return storages(fake for node in nodes if isinstance(fake := node.meta.get("example_value"), torch.Tensor))


@rule(Phase.NODE)
def check_changes_of_joined(state: TraceState, operation: OperatorCall) -> None:
    """Check a node that changes tensors."""
    joined = state.part(JoinedTensors)
    if joined.made and operation.node is not None and CHANGES in operation.node.meta:
        joined.check_kept_apart(operation.node.meta[CHANGES])


@rule(Phase.REFUSE)
def check_questions_about_joined(state: TraceState, operation: OperatorCall) -> None:
    """Check an operation that is about a tensor itself."""
    joined = state.part(JoinedTensors)
    if joined.made and ASKS_FOR_ITSELF.fullmatch(operation.name):
        joined.check_kept_apart([arg for arg in pytree.tree_leaves((operation.args, operation.kwargs)) if isinstance(arg, fx.Node)])
