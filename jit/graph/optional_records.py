"""Values of code that eager skips in some calls: autograd has a record of what they are computed from only in the other calls.

In `if rows.numel(): out.index_add_(0, rows, expert(x[rows]))` the write does nothing where there are no rows. So the graph makes it in each call, without a
branch. But where eager skips it, the parameters of `expert` get no gradient, and not zeros, and `out` may not require one. So what is written passes through
a node of `recorded_if`. With the backend eager, that lets go of the record. AOTAutograd's node has all gradients; `OptionalReach` says which of them eager
hasn't (backends/undefined_gradients.py).

The two ways of a branch may also lead gradients to different tensors (`x = layer(x) if keep else x`). With the backend eager, what the branch gives has the
record of the way that has run. So it passes through a node of `of_one_way`, of which the trace knows only that there is a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.utils import _pytree as pytree

from framejit import breaks
from framejit.graph.gradient_paths import needs_what_was_changed, node_of
from framejit.graph.joined import ASKS_FOR_ITSELF
from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.trace_state import TraceState
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.quick_dataclass import dataclass
from framejit.torch_state.symbols import free_unbacked_symbols


def recorded_if(tensor: torch.Tensor, count: Any) -> torch.Tensor:
    """A tensor, without its autograd record if the count is 0, or False. In a trace, the count isn't known, and the result has a record of its own."""
    is_tensor = type(count) is torch.Tensor and not torch._is_functional_tensor(count) and get_proxy_mode() is None
    if is_tensor or type(count) is int:
        return tensor if count else tensor.detach()
    return torch.ops.aten.alias.default(tensor)


def of_one_way(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that a branch gives, whose two ways lead gradients to different tensors. It has the record of the way that has run; in a trace, the result has
    a record of its own."""
    is_known = type(tensor) is torch.Tensor and not torch._is_functional_tensor(tensor) and get_proxy_mode() is None
    return tensor if is_known else torch.ops.aten.alias.default(tensor)


def is_optional(node: fx.Node) -> bool:
    """Return whether a node gives a tensor that has no record in some calls, or one that leads to other tensors."""
    if node.target is of_one_way:
        return True
    count = node.args[1] if node.target is recorded_if else None
    fake = count.meta["example_value"] if isinstance(count, fx.Node) else None
    return isinstance(fake, torch.Tensor) or bool(free_unbacked_symbols(fake))


Reached = tuple[frozenset[int], frozenset[int]]
"""The numbers of the optional records to which gradients lead, and the indices of the inputs that they reach without these."""


@dataclass(frozen=True, slots=True)
class OptionalReach:
    """The results of a graph from which gradients reach inputs, in calls in which some of its optional records are missing.

    Attributes:
        counts: the indices of the results that say which records there are: those whose count isn't 0.
        of_results: the indices of the results that require a gradient, each with what its gradients reach.
        of_records: what the gradients of each optional record reach.
    """

    counts: tuple[int, ...]
    of_results: tuple[tuple[int, Reached], ...]
    of_records: tuple[Reached, ...]


def reached_by(of_results: Iterable[tuple[int, Reached]], of_records: Sequence[Reached], present: Sequence[bool]) -> dict[int, frozenset[int]]:
    """For each result, the indices of the inputs that its gradients reach if these optional records are there. The rest is as in `OptionalReach`."""
    found = {}
    for result, (records, inputs) in of_results:
        passed, waiting, ends = set[int](), list(records), set(inputs)
        for record in waiting:
            if present[record] and record not in passed:
                passed.add(record)
                waiting += of_records[record][0]
                ends |= of_records[record][1]
        found[result] = frozenset(ends)
    return found


class OptionalRecords:
    """The optional records of one trace: their nodes, each with the branch that may skip it, and the reason for a break there."""

    def __init__(self, state: TraceState) -> None:
        self._state = state
        self.made: dict[fx.Node, tuple[tuple[CodeType, int], breaks.Break]] = {}
        self._is_clean = True
        """False if fakes have a record of the branches' ways, too, which were traced before the nodes were made."""

    def add(self, node: fx.Node, place: tuple[CodeType, int], reason: breaks.Break) -> None:
        """Note a node of `recorded_if`."""
        self.made[node] = place, reason
        self._is_clean = False
        self._state.trail.learned(self, self.made.pop, node)

    def refresh(self) -> None:
        """Make all fakes again, so that their record is that of the nodes alone."""
        if self.made and not self._is_clean:
            self._state.fakes.stale = self._is_clean = True
        self._state.refresh()

    def counts(self) -> list[fx.Node]:
        """The nodes of the counts that say which records there are."""
        return list(dict.fromkeys(count for node in self.made if is_optional(node) and isinstance(count := node.args[1], fx.Node)))

    def led_to(self, fakes: Iterable[torch.Tensor]) -> fx.Node | None:
        """A node to whose optional record gradients of these fakes lead; None if there is none."""
        return next(iter(self._passed(fakes)[0]), None)

    def check_asked(self, obj: TensorObject) -> None:
        """The program asks whether autograd has a record of a tensor: restart the trace, to break at the branch, if that isn't known."""
        if self.made:
            self.refresh()
            passed, is_sure = self._passed([obj.fake])
            if passed and not is_sure:
                self._restart(passed[0])

    def check_used(self, fakes: Iterable[torch.Tensor]) -> None:
        """The program makes a node of an operation that is about tensors themselves: restart the trace, to break at the branch, if gradients of one of them
        lead to optional records."""
        node = self.led_to(fakes)
        if node is not None:
            self._restart(node)

    def check_leaving(self, outputs: Iterable[fx.Node], has_more_paths: bool) -> None:
        """Restart the trace if gradients of an output need a tensor that a skipped write would not have changed: eager may have them. Restart it as well if
        gradients of AOTAutograd's node come from more than its results, or go to more than its inputs (`has_more_paths`)."""
        fakes = [fake for node in outputs if isinstance(fake := node.meta["example_value"], torch.Tensor) and fake.requires_grad]
        if self.made and (has_more_paths or any(needs_what_was_changed([fake], []) for fake in fakes)):
            self._restart(next(iter(self.made)))

    def _restart(self, node: fx.Node) -> None:
        self._state.vm.restart(*self.made[node])

    def _passed(self, fakes: Iterable[torch.Tensor]) -> tuple[list[fx.Node], bool]:
        """The nodes to whose optional records gradients of these fakes lead, without passing another, and whether there is a record without these."""
        ends = {node_of(node.meta["example_value"]): node for node in self.made if is_optional(node)}
        waiting: list[Any] = [node for fake in fakes if (node := node_of(fake)) is not None] if ends else []
        seen, found, is_sure = set(waiting), [], False
        for node in waiting:
            if node in ends:
                found.append(ends[node])
                is_sure = is_sure or ends[node].target is of_one_way
                continue
            is_sure = is_sure or hasattr(node, "variable")
            for following, _ in node.next_functions:
                if following is not None and following not in seen:
                    seen.add(following)
                    waiting.append(following)
        return found, is_sure


@rule(Phase.REFUSE)
def check_questions_about_optional_records(state: TraceState, operation: OperatorCall) -> None:
    """Check an operation that is about a tensor itself."""
    optional = state.part(OptionalRecords)
    if optional.made and ASKS_FOR_ITSELF.fullmatch(operation.name):
        fakes = [fake for fake in pytree.tree_leaves((operation.fake_args, operation.fake_kwargs)) if isinstance(fake, torch.Tensor)]
        optional.check_used(fakes)
