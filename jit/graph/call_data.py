"""Lets the program branch on data that is known when the call begins: on a number or a flag in a CPU tensor of one element from outside.

For a number, the outcomes of comparisons are guarded, as for a number from outside that varies; for a bool, its value is. The guards read the tensor's memory
when the call begins, so the graph must not have changed it before the program reads it.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch import fx

from framejit.graph.check_order import ASSERT, runs_for_its_effect
from framejit.graph.inputs import GraphInput
from framejit.graph.on_fakes import STAND_INS
from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.shapes import Shapes
from framejit.graph.trace_state import TraceState
from framejit.guards.kinds import Equals
from framejit.guards.tensor_source import TensorItem
from framejit.objects.core.object import Object
from framejit.objects.numbers.numberobject import COMPARISONS, NumberObject, compared, deferred
from framejit.objects.numbers.unbackednumber import Computed, Datum, UnbackedNumber
from framejit.torch_state.operator_exceptions import KEEP_ONE_ELEMENT

TENSOR_COMPARISONS = {name: symbol for symbol, function in COMPARISONS.items() for name in (function.__name__, f"__{function.__name__}__")}
"""Names of methods and functions that compare a tensor, with the operator for each."""
LARGEST_EXACT = 2**31
"""A tensor of ints is compared with ints of a smaller absolute value as Python compares them."""
ARITHMETIC = frozenset({"+", "-", "*", "/", "//", "%"})


class CallData:
    """The facts that one trace knows about the data of its inputs."""

    def __init__(self, state: TraceState) -> None:
        self._state = state
        self._shapes = state.part(Shapes)
        self.read: set[fx.Node] = set()
        """The inputs whose data guards read."""
        self._readable: set[fx.Node] = set()
        """Nodes that read a number from a tensor whose data was still as at the beginning of the call."""

    def note(self, node: fx.Node) -> None:
        """Note a new node that reads a number from a tensor."""
        tensor = node.args[0]
        if isinstance(tensor, fx.Node) and self._is_readable(tensor):
            self._readable.add(node)
            self._state.trail.learned(self, self._readable.discard, node)

    def truth_of_tensor(self, tensor: fx.Node) -> bool | None:
        """Return whether the one element of a tensor is true, which is then guarded. None if the tensor isn't an input, or a comparison of an input."""
        return self._truth_of_node(tensor) if self._is_readable(tensor) else None

    def truth(self, condition: UnbackedNumber) -> bool | None:
        """Return whether a bool that depends on data is true, which is then guarded. None if that data isn't known when the call begins."""
        if isinstance(condition, Datum):
            tensor = condition.node.args[0] if condition.node in self._readable else None
            return self._truth_of_node(tensor) if isinstance(tensor, fx.Node) else None
        assert isinstance(condition, Computed)
        first = condition.operands[0]
        if condition.operation == "not":
            found = self.truth(first) if isinstance(first, UnbackedNumber) else None
            return None if found is None else not found
        parts = [self._number(part) for part in condition.operands]
        if condition.operation == "bool":
            return self._compared("!=", parts[0], NumberObject(0))
        return self._compared(condition.operation, *parts) if condition.operation in COMPARISONS else None

    def _number(self, obj: Object) -> NumberObject | None:
        """A number that depends on data, as a number from outside. None if it isn't known when the call begins."""
        if isinstance(obj, NumberObject):
            return obj
        if isinstance(obj, Datum):
            tensor = obj.node.args[0] if obj.node in self._readable else None
            return self._item(tensor) if isinstance(tensor, fx.Node) else None
        if not isinstance(obj, Computed) or obj.operation not in ARITHMETIC:
            return None
        left, right = (self._number(part) for part in obj.operands)
        found = None if left is None or right is None else deferred(self._state.vm, obj.operation, left, right)
        return found if isinstance(found, NumberObject) else None

    def _compared(self, symbol: str, left: NumberObject | None, right: NumberObject | None) -> bool | None:
        made = None if left is None or right is None else compared(self._state.vm, symbol, left, right)
        return None if made is None else made.truth(self._state.vm)

    def _truth_of_node(self, tensor: fx.Node) -> bool | None:
        """Return whether the one element of an input, or a comparison of it, is true."""
        described = self._holder(tensor)
        if described is not None:
            if described.value.dtype is not torch.bool:
                return self._compared("!=", self._item(tensor), NumberObject(0))
            value = bool(described.value.item())
            self.read.add(described.node)
            self._state.vm.guard(Equals, described.source.child(TensorItem), value)
            return value
        left, right = tensor.args[:2]
        if isinstance(left, fx.Node):
            return self._compared(symbol_of(tensor), self._item(left), NumberObject(as_in(self._dtype(left), right)))
        assert isinstance(right, fx.Node)
        return self._compared(symbol_of(tensor), NumberObject(as_in(self._dtype(right), left)), self._item(right))

    def _item(self, tensor: fx.Node) -> NumberObject | None:
        """The number in an input, as a symbolic one from outside; None if it is too large, or nan."""
        described = self._holder(tensor)
        if described is None or described.value.dtype is torch.bool:
            return None
        number = NumberObject(described.value.item(), described.source.child(TensorItem), pending=True)
        self.read.add(described.node)
        return number if self._shapes.give_symbol(number) else None

    def _holder(self, node: fx.Node) -> GraphInput | None:
        """The input whose one element is that of a node's result; None if there is no such input that a guard can read."""
        fake = node.meta["example_value"]
        while node.op != "placeholder":
            if name_of(node) not in KEEP_ONE_ELEMENT or node.kwargs or len(node.all_input_nodes) != 1 or node.args[0] is not node.all_input_nodes[0]:
                return None
            (node,) = node.all_input_nodes
        described = next((known for known in self._state.known_inputs.values() if known.node is node and known.is_tensor), None)
        if described is None or described.is_state or not TensorItem.reads(described.value):
            return None
        return described if isinstance(fake, torch.Tensor) and fake.numel() == 1 and fake.dtype is described.value.dtype else None

    def _dtype(self, node: fx.Node) -> torch.dtype | None:
        """The dtype of the input whose one element is that of a node's result."""
        described = self._holder(node)
        return None if described is None else described.value.dtype

    def _is_readable(self, tensor: fx.Node) -> bool:
        """Return whether a tensor's data at this point follows from the data that one input has when the call begins."""
        if self._state.is_inner() or not self._state.demands.guards_data:
            return False
        held = tensor
        if self._holder(tensor) is None and symbol_of(tensor) and not tensor.kwargs:
            operand, other = tensor.args[:2] if isinstance(tensor.args[0], fx.Node) else tensor.args[1::-1]
            if isinstance(operand, fx.Node) and as_in(self._dtype(operand), other) is not None:
                held = operand
        return self._holder(held) is not None and self._are_unchanged({tensor, *nodes_between(held)})

    def _are_unchanged(self, nodes: set[fx.Node]) -> bool:
        """Return whether the graph has left the memory of these nodes' tensors, an input and values computed from it, unchanged, and no node may change unknown
        memory."""
        self._state.refresh()
        kept = self._state.outermost.kept
        if any(runs_for_its_effect(node) and node.target not in STAND_INS and node.target is not ASSERT for node in kept):
            return False
        return not self._state.fakes.are_changed(nodes, kept)


@rule(Phase.NODE)
def note_number(state: TraceState, operation: OperatorCall) -> None:
    """Note an operator that reads a number from a tensor."""
    if operation.node is not None and operation.target in ("item", torch.Tensor.item):
        state.part(CallData).note(operation.node)


def nodes_between(node: fx.Node) -> list[fx.Node]:
    """The nodes from this one to the input that it is computed from alone, both included."""
    found = [node]
    while found[-1].op != "placeholder":
        found += found[-1].all_input_nodes
    return found


def symbol_of(node: fx.Node) -> str:
    """The operator of the comparison that a node computes; empty for other nodes."""
    return TENSOR_COMPARISONS.get(name_of(node), "")


def name_of(node: fx.Node) -> str:
    """The name of the torch method or function that a node calls; empty for other nodes."""
    if node.op == "call_method":
        return str(node.target)
    name = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
    return name if any(getattr(owner, name, None) is node.target for owner in (torch.Tensor, torch, operator)) else ""


def as_in(dtype: torch.dtype | None, number: Any) -> float | None:
    """The value with which a tensor of this dtype is compared if the program compares it with a number; None if it isn't known."""
    if type(number) is int and abs(number) < LARGEST_EXACT and dtype in (torch.int64, torch.int32):
        return number
    if type(number) not in (int, float) or dtype not in (torch.float32, torch.float64):
        return None
    found = torch.tensor(number, dtype=dtype).item()
    return found if math.isfinite(found) else None
