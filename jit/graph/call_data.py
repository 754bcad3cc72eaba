"""Lets the program decide by data that is known when the call begins: by numbers and flags in small CPU tensors from outside (`grid[0, 1]`, `lengths.max()`).

For a number, the outcomes of comparisons are guarded, as for a number from outside that varies; for a bool, its value is. If the program needs the value of a
number, that is guarded, until it is seen to vary. The guards read the tensor's memory when the call begins, so the graph must not have changed it before the
program reads it.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch import fx

from framejit.graph.check_order import ASSERT, runs_for_its_effect
from framejit.graph.fake import storages
from framejit.graph.inputs import GraphInput
from framejit.graph.on_fakes import STAND_INS
from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.shapes import Shapes
from framejit.graph.trace_state import TraceState
from framejit.guards.kinds import Equals
from framejit.guards.source import MISSING, Path, Source
from framejit.guards.tensor_source import MOST_BYTES, TOTAL_DTYPES, TOTALS, ArrayTensor, TensorElement, TensorItem, TensorTotal, Total
from framejit.objects.core.object import Object
from framejit.objects.numbers.numberobject import COMPARISONS, NumberObject, compared, deferred
from framejit.objects.numbers.unbackednumber import Computed, Datum, UnbackedNumber
from framejit.quick_dataclass import dataclass
from framejit.torch_state.operator_exceptions import KEEP_ONE_ELEMENT

TENSOR_COMPARISONS = {name: symbol for symbol, function in COMPARISONS.items() for name in (function.__name__, f"__{function.__name__}__")}
"""Names of methods and functions that compare a tensor, with the operator for each."""
TENSOR_ARITHMETIC = {name: symbol for symbol, own in (("+", "add"), ("-", "sub"), ("//", "floordiv"), ("%", "mod")) for name in (own, f"__{own}__")}
"""Names of methods and functions that compute a tensor of ints from another one and an int, as Python does, with the operator for each."""
LARGEST_EXACT = 2**31
"""A tensor of ints is compared with ints of a smaller absolute value as Python compares them."""
ARITHMETIC = frozenset({"+", "-", "*", "/", "//", "%"})
WHOLE = frozenset({torch.int64, torch.int32})
"""The dtypes of which tensors are compared with ints, and with each other, as Python compares ints."""


@dataclass(frozen=True, slots=True)
class Held:
    """A number or bool that the data of an input holds when the call begins. `value`: in this call; `dtype`: of the program's tensor with this one element."""

    described: GraphInput
    source: Source
    value: Any
    dtype: torch.dtype


class CallData:
    """The facts that one trace knows about the data of its inputs."""

    def __init__(self, state: TraceState) -> None:
        self._state = state
        self._shapes = state.part(Shapes)
        self.read: set[fx.Node] = set()
        """The inputs whose data guards read."""
        self.ints: dict[fx.Node, set[Path]] = {}
        """The paths of ints whose values guards fix, by the input with the data."""
        self._readable: set[fx.Node] = set()
        """Nodes that read a number from a tensor whose data was still as at the beginning of the call."""

    def note(self, node: fx.Node) -> None:
        """Note a new node that reads a number from a tensor."""
        tensor = node.args[0]
        if isinstance(tensor, fx.Node) and self._is_readable(tensor):
            self._readable.add(node)
            self._state.trail.learned(self, self._readable.discard, node)

    def truth_of_tensor(self, tensor: fx.Node) -> bool | None:
        """Return whether the one element of a tensor is true, which is then guarded. None if it isn't data that guards read, or a comparison of such data."""
        return self._truth_of_node(tensor) if self._is_readable(tensor) else None

    def truth(self, condition: UnbackedNumber) -> bool | None:
        """Return whether a bool that depends on data is true, which is then guarded. None if that data isn't known when the call begins."""
        if isinstance(condition, Datum):
            tensor = self._tensor_of(condition.node)
            return None if tensor is None else self._truth_of_node(tensor)
        assert isinstance(condition, Computed)
        first = condition.operands[0]
        if condition.operation == "not":
            found = self.truth(first) if isinstance(first, UnbackedNumber) else None
            return None if found is None else not found
        if condition.operation in ("all", "any"):
            return self._truth_of_both(condition)
        parts = [self._number(part) for part in condition.operands]
        if condition.operation == "bool":
            return self._compared("!=", parts[0], NumberObject(0))
        return self._compared(condition.operation, *parts) if condition.operation in COMPARISONS else None

    def _truth_of_both(self, condition: Computed) -> bool | None:
        """The outcome of `all` or `any` of two bools; None if it isn't known when the call begins."""
        end = condition.operation == "any"
        for part in condition.operands:
            found = self.truth(part) if isinstance(part, UnbackedNumber) else None
            if found is None or found is end:
                return found
        return not end

    def fixed(self, number: Datum) -> tuple[fx.Node, Any] | None:
        """The value of a number that guards read, which is then guarded, and the input with the data. None if there are no such guards, or the value has been
        seen to vary."""
        tensor = self._tensor_of(number.node)
        held = None if tensor is None else self._held(tensor)
        if held is None or held.described.value.requires_grad or is_of_array(held.described) or not self._state.dynamic.may_fix(held.source):
            return None
        self.read.add(held.described.node)
        self._state.vm.guard(Equals, held.source, held.value)
        if type(held.value) is int:
            self.ints.setdefault(held.described.node, set()).add(held.source.path())
        return held.described.node, held.value

    def is_int(self, tensor: fx.Node) -> bool:
        """Return whether a tensor has no dimensions, and holds an int that guards can read."""
        fake = tensor.meta["example_value"]
        return isinstance(fake, torch.Tensor) and fake.dim() == 0 and fake.dtype in WHOLE and self._state.demands.takes_unbacked and self._is_readable(tensor)

    def arithmetic(self, tensor: fx.Node) -> tuple[str, fx.Node, int] | None:
        """An operator, another node and an int, if the node computes an int in a tensor without dimensions from these as Python does; None otherwise."""
        symbol, fake = TENSOR_ARITHMETIC.get(name_of(tensor)), tensor.meta["example_value"]
        if symbol is None or tensor.kwargs or len(tensor.args) != 2 or not isinstance(fake, torch.Tensor) or fake.dim() or fake.dtype is not torch.int64:
            return None
        left, right = tensor.args
        if not isinstance(left, fx.Node) or left.meta["example_value"].dtype is not fake.dtype or type(right) is not int or not 0 < right < LARGEST_EXACT:
            return None
        return (symbol, left, right) if self._are_unchanged({tensor}) else None

    def symbolic(self, number: Datum) -> NumberObject | None:
        """An int that guards read and that is seen to vary, as an int from outside. None if there are no such guards, or it is too large."""
        tensor, dynamic = self._tensor_of(number.node), self._state.dynamic
        held = None if tensor is None or number.cls is not int else self._held(tensor)
        return self._item(tensor) if tensor is not None and held is not None and (dynamic.all or dynamic.has_varied(held.source)) else None

    def _tensor_of(self, node: fx.Node) -> fx.Node | None:
        """The tensor from which a node reads a number that guards read too; None if they don't."""
        tensor = node.args[0] if node in self._readable else None
        return tensor if isinstance(tensor, fx.Node) else None

    def _number(self, obj: Object) -> NumberObject | None:
        """A number that depends on data, as a number from outside. None if it isn't known when the call begins."""
        if isinstance(obj, NumberObject):
            return obj
        if isinstance(obj, Datum):
            tensor = self._tensor_of(obj.node)
            return None if tensor is None else self._item(tensor)
        if not isinstance(obj, Computed) or obj.operation not in ARITHMETIC:
            return None
        left, right = (self._number(part) for part in obj.operands)
        found = None if left is None or right is None else deferred(self._state.vm, obj.operation, left, right)
        return found if isinstance(found, NumberObject) else None

    def _compared(self, symbol: str, left: NumberObject | None, right: NumberObject | None) -> bool | None:
        made = None if left is None or right is None else compared(self._state.vm, symbol, left, right)
        return None if made is None else made.truth(self._state.vm)

    def _truth_of_node(self, tensor: fx.Node) -> bool | None:
        """Return whether the one element of a tensor with data that guards read, or of a comparison of it, is true."""
        held = self._held(tensor)
        if tensor.op != "placeholder":  # the guard is about another tensor: a call of a module with another such argument isn't alike
            self._state.trail.set(self, "read", set(self.read))
        if held is not None:
            if type(held.value) is not bool:
                return self._compared("!=", self._item(tensor), NumberObject(0))
            self.read.add(held.described.node)
            self._state.vm.guard(Equals, held.source, held.value)
            return held.value
        left, right = [self._operand(part, other) for part, other in sides(tensor)]
        return self._compared(symbol_of(tensor), left, right)

    def _operand(self, part: Any, other: Any) -> NumberObject | None:
        """One side of a comparison of tensors, `other` being the other side."""
        if isinstance(part, fx.Node):
            return self._item(part)
        found = as_in(self._dtype(other), part) if isinstance(other, fx.Node) else None
        return None if found is None else NumberObject(found)

    def _item(self, tensor: fx.Node) -> NumberObject | None:
        """The number in a tensor, as a symbolic one from outside; None if it is too large, or nan."""
        held = self._held(tensor)
        if held is None or type(held.value) is bool:
            return None
        number = NumberObject(held.value, held.source, pending=True)
        self.read.add(held.described.node)
        return number if self._shapes.give_symbol(number) else None

    def _held(self, node: fx.Node) -> Held | None:
        """The data of an input that is the one element of a node's result; None if there is none that a guard can read."""
        self._state.refresh()
        fake = node.meta.get("example_value")
        if not isinstance(fake, torch.Tensor) or not is_single(fake):
            return None
        place, is_item = fake, False
        while node.op != "placeholder":
            if len(node.all_input_nodes) != 1 or node.args[:1] != (node.all_input_nodes[0],):
                return None
            (before,) = node.all_input_nodes
            given = before.meta.get("example_value")
            if isinstance(given, (tuple, list)):
                is_item = True
            elif not isinstance(given, torch.Tensor):
                return None
            elif not is_part(place, given):
                if is_item or not is_single(given) or given.dtype is not fake.dtype or not keeps(node):
                    return None if is_item else self._total(node, fake)
                place = given
            else:
                is_item = False
            node = before
        described = self._input_of(node)
        if described is None or described.value.dtype is not fake.dtype:
            return None
        if described.value.numel() == 1:
            return held_at(described, described.source.child(TensorItem), fake)
        if is_of_array(described):
            return None
        index = index_in(described.value, place, node.meta["example_value"])
        return None if index is None else held_at(described, described.source.child(TensorElement, index), fake)

    def _total(self, node: fx.Node, fake: torch.Tensor) -> Held | None:
        """The number that a node makes of all elements of an input, or of a comparison of it with an int."""
        function, tensor = name_of(node), node.args[0]
        if function not in TOTALS or node.args != (tensor,) or node.kwargs or not isinstance(tensor, fx.Node):
            return None
        total = Total(function)
        if tensor.op != "placeholder":
            found = related(tensor)
            if found is None or function in ("max", "min"):
                return None
            (tensor,), total = tensor.all_input_nodes, Total(function, *found)
        described = self._input_of(tensor)
        return None if described is None or is_of_array(described) else held_at(described, described.source.child(TensorTotal, total), fake)

    def _input_of(self, node: fx.Node) -> GraphInput | None:
        """The tensor from outside that a placeholder stands for; None if it stands for something else."""
        described = next((known for known in self._state.known_inputs.values() if known.node is node and known.is_tensor), None)
        return None if described is None or described.is_state else described

    def _dtype(self, node: fx.Node) -> torch.dtype | None:
        """The dtype of the data that is the one element of a node's result, if guards read it."""
        held = self._held(node)
        return None if held is None else held.dtype

    def _is_readable(self, tensor: fx.Node) -> bool:
        """Return whether a tensor's data at this point follows from the data that inputs have when the call begins."""
        if self._state.is_inner() or not self._state.demands.guards_data or not self._state.dynamic.reads_data:
            return False
        if self._held(tensor) is not None:
            return self._are_unchanged({tensor, *nodes_between(tensor)})
        if not symbol_of(tensor) or tensor.kwargs:
            return False
        parts = [part for part, other in sides(tensor) if isinstance(part, fx.Node)]
        dtypes = {self._dtype(part) for part in parts}
        if len(parts) == 2 and not (len(dtypes) == 1 and dtypes <= WHOLE):
            return False
        if any(not isinstance(part, fx.Node) and as_in(self._dtype(other), part) is None for part, other in sides(tensor)):
            return False
        return None not in dtypes and self._are_unchanged({tensor, *(node for part in parts for node in nodes_between(part))})

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


def held_at(described: GraphInput, source: Source, fake: torch.Tensor) -> Held | None:
    """The number or bool of an input that a source leads to; None if guards can't read it, or if the input is a parameter, which training changes."""
    if isinstance(described.value, torch.nn.Parameter):
        return None
    value = source.step(described.value)
    return None if value is MISSING else Held(described, source, value, fake.dtype)


def is_of_array(described: GraphInput) -> bool:
    """Return whether an input is an array of NumPy, whose items are NumPy's scalars, and no numbers of Python's."""
    return isinstance(described.source, ArrayTensor)


def is_single(fake: torch.Tensor) -> bool:
    """Return whether a tensor is known to have one element."""
    return all(type(size) is int and size == 1 for size in fake.shape)


def is_part(fake: torch.Tensor, base: torch.Tensor) -> bool:
    """Return whether a tensor's elements are elements of another one, in the same memory."""
    if fake is base:
        return True
    if fake.dtype is not base.dtype or fake.is_neg() != base.is_neg() or fake.is_conj() or storages([fake]).isdisjoint(storages([base])):
        return False
    return fake.layout is torch.strided is base.layout


def keeps(node: fx.Node) -> bool:
    """Return whether a node's result has the one element of its argument, if both have one and are of the same type."""
    return name_of(node) in KEEP_ONE_ELEMENT and not node.kwargs


def related(node: fx.Node) -> tuple[str, int] | None:
    """The relation that a node computes between each of a placeholder's elements and an int, and that int; None if it computes something else."""
    tensor, *others = node.args or (None,)
    if not isinstance(tensor, fx.Node) or tensor.op != "placeholder" or node.kwargs:
        return None
    dtype = tensor.meta["example_value"].dtype if isinstance(tensor.meta["example_value"], torch.Tensor) else None
    if name_of(node) == "bool" and not others and dtype in TOTAL_DTYPES:
        return "!=", 0
    symbol = symbol_of(node)
    other = as_in(dtype, others[0]) if symbol and len(others) == 1 and dtype in WHOLE else None
    return (symbol, other) if type(other) is int else None


def index_in(tensor: torch.Tensor, place: torch.Tensor, fake: torch.Tensor) -> tuple[int, ...] | None:
    """The index of an element in a small tensor, given the fake of a view that begins at the element, and the fake of the tensor; None if there is none."""
    first, begin = place.storage_offset(), fake.storage_offset()
    if type(first) is not int or type(begin) is not int or tensor.numel() * tensor.itemsize > MOST_BYTES:
        return None
    rest, index = first - begin, [0] * tensor.dim()
    for stride, dim in sorted(((tensor.stride(dim), dim) for dim in range(tensor.dim())), reverse=True):
        if stride:
            index[dim] = max(0, min(rest // stride, tensor.size(dim) - 1))
            rest -= index[dim] * stride
    return None if rest else tuple(index)


def sides(node: fx.Node) -> list[tuple[Any, Any]]:
    """Both operands of a comparison, each with the other one."""
    left, right = node.args[:2]
    return [(left, right), (right, left)]


def nodes_between(node: fx.Node) -> list[fx.Node]:
    """The nodes that return tensors, from this one to the input that it is computed from alone, both included."""
    found = [node]
    while found[-1].op != "placeholder":
        found += found[-1].all_input_nodes
    return [node for node in found if isinstance(node.meta["example_value"], torch.Tensor)]


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
