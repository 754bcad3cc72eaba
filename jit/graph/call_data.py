"""Data of tensors from outside that the program goes by, and that is there when the call begins: a counter or a flag in a tensor of one element on a CPU.

Of an int it is guarded how it compares with others, as of an int from outside that varies; of a bool what it is. The guards read the tensor's memory
when the call begins, so the graph may not have changed it where the program looks.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import fx

from framejit.graph.body import Body
from framejit.graph.check_order import runs_for_its_effect
from framejit.graph.demands import GraphDemands
from framejit.graph.fakes import Fakes, storages
from framejit.graph.graph_inputs import GraphInputs
from framejit.graph.inputs import GraphInput
from framejit.graph.on_fakes import STAND_INS
from framejit.graph.shapes import Shapes
from framejit.graph.unbacked import ASSERT
from framejit.guards.kinds import Equals
from framejit.guards.tensor_source import TensorItem
from framejit.objects.numberobject import COMPARISONS, NumberObject, compared, deferred
from framejit.objects.object import VM, Object
from framejit.objects.unbackednumber import Computed, Datum, UnbackedNumber
from framejit.trail import Trail

TENSOR_COMPARISONS = {name: symbol for symbol, function in COMPARISONS.items() for name in (function.__name__, f"__{function.__name__}__")}
"""What methods and functions that compare a tensor are called, with the operator that they are."""
LARGEST_EXACT = 2**31
"""A tensor of ints is compared with ints below this as Python compares them."""
WHOLE = frozenset({"+", "-", "*", "//", "%"})


class GraphOfCall(Protocol):
    """What is asked of the graph."""

    trail: Trail
    demands: GraphDemands
    fakes: Fakes
    shapes: Shapes
    inputs: GraphInputs
    outermost: Body

    @property
    def vm(self) -> VM:
        """The running trace."""

    def is_inner(self) -> bool:
        """Whether the innermost graph is another than the outermost."""

    def refresh(self) -> None:
        """Make all fakes again if undoing has made them stale."""


class CallData:
    """What one trace may know of the data of its inputs."""

    def __init__(self, graph: GraphOfCall) -> None:
        self._graph = graph
        self.read: set[fx.Node] = set()
        """The inputs whose data guards read."""
        self._readable: set[fx.Node] = set()
        """Nodes that give a number out of a tensor whose data was that of the call's beginning."""

    def note(self, node: fx.Node) -> None:
        """A node has been made that gives a number out of a tensor."""
        tensor = node.args[0] if node.target in ("item", torch.Tensor.item) else None
        if isinstance(tensor, fx.Node) and self._is_readable(tensor):
            self._readable.add(node)
            self._graph.trail.log(self._readable.discard, node)

    def truth_of_tensor(self, tensor: fx.Node) -> bool | None:
        """Whether the one element of a tensor is true, which is guarded; None where its data isn't that of an input, or a comparison of such."""
        return self._truth_of_node(tensor) if self._is_readable(tensor) else None

    def truth(self, condition: UnbackedNumber) -> bool | None:
        """Whether a bool that depends on data is true, which is guarded; None where that data isn't known when the call begins."""
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
        """An int that depends on data, as one from outside; None where it isn't known when the call begins."""
        if obj.cls is not int or isinstance(obj, NumberObject):
            return obj if obj.cls is int and isinstance(obj, NumberObject) else None
        if isinstance(obj, Datum):
            tensor = obj.node.args[0] if obj.node in self._readable else None
            return self._item(tensor) if isinstance(tensor, fx.Node) else None
        if not isinstance(obj, Computed) or obj.operation not in WHOLE:
            return None
        left, right = (self._number(part) for part in obj.operands)
        found = None if left is None or right is None else deferred(self._graph.vm, obj.operation, left, right)
        return found if isinstance(found, NumberObject) else None

    def _compared(self, symbol: str, left: NumberObject | None, right: NumberObject | None) -> bool | None:
        made = None if left is None or right is None else compared(self._graph.vm, symbol, left, right)
        return None if made is None else made.truth(self._graph.vm)

    def _truth_of_node(self, tensor: fx.Node) -> bool | None:
        """Whether the one element of an input is true, or a comparison of one."""
        if tensor.op == "placeholder":
            described = self._input(tensor)
            if described is None or described.value.dtype is not torch.bool:
                return self._compared("!=", self._item(tensor), NumberObject(0))
            value = bool(described.value.item())
            self.read.add(tensor)
            self._graph.vm.guard(Equals, described.source.child(TensorItem), value)
            return value
        symbol, (left, right) = symbol_of(tensor), tensor.args[:2]
        return self._compared(symbol, *[self._item(part) if isinstance(part, fx.Node) else NumberObject(part) for part in (left, right)])

    def _item(self, tensor: fx.Node) -> NumberObject | None:
        """The int in an input, as a symbolic one from outside; None where it has too many bits."""
        described = self._input(tensor)
        if described is None or described.value.dtype is torch.bool:
            return None
        number = NumberObject(described.value.item(), described.source.child(TensorItem), pending=True)
        self.read.add(tensor)
        return number if self._graph.shapes.give_symbol(number) else None

    def _input(self, node: fx.Node) -> GraphInput | None:
        """The input that a placeholder stands for, if a guard can read it."""
        described = next((known for known in self._graph.inputs.known.values() if known.node is node and known.is_tensor), None)
        return described if described is not None and not described.is_state and TensorItem.reads(described.value) else None

    def _is_readable(self, tensor: fx.Node) -> bool:
        """Whether what a tensor holds here follows from the data of one input, as it is when the call begins."""
        if self._graph.is_inner() or not self._graph.demands.guards_data:
            return False
        if tensor.op == "placeholder":
            return self._input(tensor) is not None and self._is_unchanged(tensor)
        parts = tensor.args[:2] if symbol_of(tensor) and not tensor.kwargs else ()
        nodes = [part for part in parts if isinstance(part, fx.Node)]
        known = all(type(part) is int and abs(part) < LARGEST_EXACT for part in parts if not isinstance(part, fx.Node))
        return len(nodes) == 1 and known and nodes[0].op == "placeholder" and self._item_is_whole(nodes[0]) and self._is_unchanged(nodes[0])

    def _item_is_whole(self, placeholder: fx.Node) -> bool:
        described = self._input(placeholder)
        return described is not None and described.value.dtype in (torch.int64, torch.int32)

    def _is_unchanged(self, placeholder: fx.Node) -> bool:
        """Whether the graph has left the memory of an input as it was, and nothing in it changes what it doesn't tell of."""
        self._graph.refresh()
        kept = self._graph.outermost.kept
        if any(runs_for_its_effect(node) and node.target not in STAND_INS and node.target is not ASSERT for node in kept):
            return False
        changed = self._graph.fakes.changed_inputs(kept)
        return storages([placeholder.meta["example_value"]]).isdisjoint(storages(node.meta["example_value"] for node in changed))


def symbol_of(node: fx.Node) -> str:
    """The comparison that a node is; empty for others."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return TENSOR_COMPARISONS.get(name, "") if node.op in ("call_function", "call_method") else ""
