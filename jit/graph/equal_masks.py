"""Masks that are computed twice from the same tensors: the first is used wherever either selects elements, so that the numbers of elements are equal.

    cross_entropy(logits[labels != -100], labels[labels != -100])      # two masks, one number of elements

Each tensor has a number, which stands for what it holds until it is changed. An operator of the table below gives equal numbers for equal numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from typing import Any

import torch
from torch import fx
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensor

from framejit.graph.fake import is_declared, storages, version_of
from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.prune import fake_of
from framejit.graph.trace_state import TraceState
from framejit.torch_state.operator_exceptions import COMPUTE_MASKS, SELECT_BY_MASK


class NotComparable(Exception):
    """Signal: an argument may mean something else in another call of the operator."""


class EqualMasks:
    """The numbers of the tensors of one trace: equal numbers stand for equal contents.

    A node's number is forgotten when its tensor's memory is written to, and no number is given twice.
    """

    def __init__(self, state: TraceState) -> None:
        self._state = state
        self._fresh = itertools.count()
        self._numbers: dict[fx.Node, tuple[int, int]] = {}  # the version of a node's tensor, and its number
        self._results: dict[Hashable, int] = {}  # the number of an operator's result, by the operator and the numbers of its arguments
        self._first: dict[int, fx.Node] = {}  # by number: the first node with it

    def number_of(self, node: fx.Node) -> int | None:
        """The number of what a node's tensor holds now, or None if it has none."""
        known = self._numbers.get(node)
        return None if known is None or known[0] != version_of(node.meta["example_value"]) else known[1]

    def _give(self, node: fx.Node, number: int) -> int:
        self._numbers[node] = version_of(node.meta["example_value"]), number
        return number

    def note(self, operation: OperatorCall) -> None:
        """Give the result of an operator its number: that of an earlier one with the same arguments, if there is one."""
        assert operation.node is not None
        try:
            key = operation.op, operation.target, self._key(operation.args), self._key(operation.kwargs)
        except NotComparable:
            return
        number = self._results.setdefault(key, next(self._fresh))
        self._give(operation.node, number)
        first = self._first.get(number)
        if first is None or not self._holds(first, number):
            self._first[number] = operation.node

    def _key(self, value: Any) -> Hashable:
        """Return a key that equal arguments share, and no others. Raises NotComparable."""
        if isinstance(value, fx.Node):
            if not isinstance(value.meta["example_value"], torch.Tensor):
                return "node", value
            number = self.number_of(value)
            return "number", self._give(value, next(self._fresh)) if number is None else number
        if isinstance(value, (tuple, list)):
            return type(value), tuple(map(self._key, value))
        if isinstance(value, dict):
            return tuple((name, self._key(item)) for name, item in value.items())
        if isinstance(value, slice):
            return "slice", self._key(value.start), self._key(value.stop), self._key(value.step)
        if value is None or value is Ellipsis or type(value) in (int, bool, float, str, torch.dtype, torch.device, torch.memory_format):
            return type(value), value
        raise NotComparable

    def first(self, node: fx.Node) -> fx.Node:
        """The first node of the innermost graph that gives the same mask as this one, and hasn't been changed since; the node itself if it is the first."""
        fake = node.meta["example_value"]
        number = self.number_of(node) if isinstance(fake, torch.Tensor) and fake.dtype is torch.bool else None
        first = None if number is None else self._first.get(number)
        return first if first is not None and number is not None and self._holds(first, number) else node

    def _holds(self, node: fx.Node, number: int) -> bool:
        """Return whether a node is part of the innermost graph, and its tensor still has the number."""
        return not node._erased and node.graph is self._state.body.fx and self.number_of(node) == number

    def changed(self, operation: OperatorCall) -> None:
        """Forget the numbers of what an operator may have changed."""
        if operation.inner_graphs or isinstance(operation.target, HigherOrderOperator) or is_declared(operation.target):
            self._numbers.clear()
            return
        written = storages(operation.fakes)
        for node in [node for node in self._numbers if not storages([node.meta["example_value"]]).isdisjoint(written)]:
            del self._numbers[node]


@rule(Phase.NODE)
def note_mask(state: TraceState, operation: OperatorCall) -> None:
    """Note what computes masks, and what changes tensors."""
    if operation.changes or operation.inner_graphs or isinstance(operation.target, HigherOrderOperator):
        state.part(EqualMasks).changed(operation)
    elif operation.name in COMPUTE_MASKS and isinstance(operation.result, FakeTensor) and not operation.result.is_floating_point():
        state.part(EqualMasks).note(operation)


@rule(Phase.REPLACE)
def select_by_first(state: TraceState, operation: OperatorCall) -> None:
    """Put the first of equal masks in the place of a mask that selects elements."""
    if operation.name not in SELECT_BY_MASK or len(operation.args) < 2 or not any(fake.dtype is torch.bool for fake in operation.fakes[1:]):
        return
    masks = state.part(EqualMasks)

    def replaced(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(replaced, value))
        return masks.first(value) if isinstance(value, fx.Node) else value

    index = replaced(operation.args[1])
    if index is not operation.args[1] and index != operation.args[1]:
        operation.args = (operation.args[0], index, *operation.args[2:])
        operation.fakes = []
        operation.fake_args = tuple([fake_of(arg, operation.fakes) for arg in operation.args])
        operation.fake_kwargs = {name: fake_of(arg, operation.fakes) for name, arg in operation.kwargs.items()}
