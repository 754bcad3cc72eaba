"""Computes data that the program asks for while tracing, if it depends only on constants, and on small tensors from outside.

Nothing is computed before the program asks (`if t > 0`, `range(n.item())`). Then the nodes that compute the tensor run on real tensors, and the data of the
tensors that objects hold is guarded. So is that of arguments with a few ints or bools. Floats among the arguments aren't read, since they vary, and neither is
data that has been seen to vary.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import BuiltinFunctionType, BuiltinMethodType, MethodDescriptorType
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload, OpOverloadPacket
from torch.utils._python_dispatch import TorchDispatchMode

from framejit import breaks
from framejit.graph.call_data import CallData
from framejit.graph.demands import RestartVarying
from framejit.graph.fake import storages
from framejit.graph.fractions import outcome_of_tensors
from framejit.graph.inputs import GraphInput
from framejit.graph.on_fakes import written_by
from framejit.graph.prune import PURE_TARGETS, draws
from framejit.graph.trace_state import TraceState
from framejit.graph.written import arguments_of
from framejit.guards.dynamic import is_argument
from framejit.guards.kinds import DataEquals
from framejit.guards.source import MISSING, Source
from framejit.guards.tensor_source import MOST_BYTES, ArrayTensor, TensorData, data_of
from framejit.guards.tensor_spec import numbers_in
from framejit.objects.arrays.numpyoperator import NUMPY
from framejit.objects.core.object import Object
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.numbers.pythonnumbers import PYTHON
from framejit.objects.numbers.unbackednumber import OPERATIONS, Computed, Datum, UnbackedNumber
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.torch_state.operator_facts import only_writes

MOST_GIVEN = 256
"""Arguments with more elements aren't guarded by all of their data."""
MOST_NODES = 500
"""Data that takes more nodes to compute isn't computed while tracing."""
BUILTINS = (BuiltinFunctionType, BuiltinMethodType, MethodDescriptorType, OpOverload, OpOverloadPacket)
OF_ARRAYS = frozenset({"framejit.objects.arrays.arrayfunctions", "framejit.objects.arrays.arrayindexing"})
MODULES = OF_ARRAYS | {"torch", "torch.functional", "torch.nn.functional", "torch._tensor"}
"""Modules whose Python functions only compute. The operators that they call are checked while they run."""


class NotKnown(Exception):
    """Signal: the data of a tensor isn't known while tracing."""


class OnlyComputes(TorchDispatchMode):
    """Stops operators that do more than compute their results: they draw random numbers, are another library's, or write without `may_write`."""

    def __init__(self, may_write: bool) -> None:
        super().__init__()
        self._may_write = may_write

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        is_known = func in (NUMPY, PYTHON) or (isinstance(func, OpOverload) and func.namespace in ("aten", "prims") and bool(func._schema.returns))
        if not is_known or (torch.Tag.nondeterministic_seeded in func.tags and draws(func, args, kwargs)):
            raise NotKnown
        if not self._may_write and written_by(func, args, kwargs):
            raise NotKnown
        return func(*args, **kwargs)


class KnownData:
    """The data that one trace knows, and the tensors from outside on whose data it depends."""

    def __init__(self, state: TraceState) -> None:
        self._state = state
        self._unknown: set[fx.Node] = set()
        self._rests_on: list[tuple[fx.Node, Any]] = []

    def of(self, node: fx.Node) -> Any:
        """The result of a node of the outermost graph: a tensor that must not be written to, or a number. MISSING if it isn't known."""
        if node.graph is not self._state.outermost.fx:
            return MISSING
        self._state.refresh()
        needed = self._needed(node)
        if needed is None:
            self._unknown.add(node)
            return MISSING
        try:
            found = self._computed(sorted(needed))[node]
        except NotKnown:
            self._unknown.add(node)
            return MISSING
        for part in needed:
            if part.op == "placeholder":
                self._rest_on(self._input_of(part))
        return found

    def number(self, number: Object) -> Any:
        """The value of a number that comes from known data. MISSING if it isn't known."""
        if isinstance(number, Datum):
            fixed = self._state.part(CallData).fixed(number)
            if fixed is None:
                return self.of(number.node)
            node, value = fixed
            self._depend_on(node)
            return value
        if isinstance(number, Computed):
            found = {id(part): self.number(part) for part in number.operands if isinstance(part, UnbackedNumber)}
            if MISSING in found.values():
                return MISSING
            operands = [found[id(part)] if id(part) in found else self.number(part) for part in number.operands]
            return MISSING if MISSING in operands else OPERATIONS[number.operation](*operands)
        if isinstance(number, NumberObject) and not number.is_symbolic(self._state.vm):
            return number.constant(self._state.vm)
        return MISSING

    def outcome(self, condition: UnbackedNumber) -> bool | None:
        """The value of a bool that follows from the data of inputs when the call begins, which is guarded; None if it doesn't follow."""
        return self._state.part(CallData).truth(condition)

    def symbolic(self, number: Datum) -> NumberObject | None:
        """An int out of the data that inputs have when the call begins, as an int from outside that varies; None if it isn't such an int."""
        return self._state.part(CallData).symbolic(number)

    def is_int(self, tensor: TensorObject) -> bool:
        """Return whether a tensor has no dimensions, and holds an int that guards can read."""
        return self._state.part(CallData).is_int(tensor.node)

    def arithmetic(self, tensor: TensorObject) -> tuple[str, TensorObject, int] | None:
        """An operator, another tensor without dimensions, and an int, from which a tensor is computed; None if it isn't."""
        found = self._state.part(CallData).arithmetic(tensor.node)
        other = None if found is None else self._state.object_of(found[1].meta["example_value"])
        return None if found is None or not isinstance(other, TensorObject) else (found[0], other, found[2])

    def truth_of_tensor(self, tensor: fx.Node) -> bool | None:
        """Return whether the one element of a node's tensor is true, if that follows from the data of inputs when the call begins, or from the range of
        what the graph draws; None if it doesn't."""
        found = outcome_of_tensors(self._state, tensor)
        return self._state.part(CallData).truth_of_tensor(tensor) if found is None else found

    def check_unchanged(self, mutated: Iterable[fx.Node]) -> None:
        """Restart the trace if the graph changes a tensor on whose data the trace depends, since the next call would find other data: with symbols for ints,
        or to break."""
        changed = [memory for node in mutated if (memory := memory_of(self._input_of(node))) is not None] if self._rests_on else []
        for node, place in self._rests_on:
            own = memory_of(self._input_of(node))
            if own is not None and any(own[0] < end and start < own[1] for start, end in changed):
                dynamic, paths = self._state.dynamic, frozenset(self._state.part(CallData).ints.get(node, ()))
                if not dynamic.fixed and not paths <= dynamic.varying.keys():
                    raise RestartVarying(paths)
                self._state.vm.restart(place, breaks.DataDependent("what the program asks for, of a tensor that it changes in the same call,"))

    def rested_on(self) -> set[fx.Node]:
        """The inputs on whose data the trace depends."""
        return {node for node, _ in self._rests_on}

    # What a node is computed from.

    def _needed(self, node: fx.Node) -> set[fx.Node] | None:
        """The nodes that compute a node's result, and those that change it; None if the result of one of them can't be known."""
        found: set[fx.Node] = set()
        waiting = [node]
        while waiting:
            part = waiting.pop()
            if part not in found:
                if part in self._unknown or len(found) > MOST_NODES or not self._may_know(part):
                    return None
                found.add(part)
                waiting += part.all_input_nodes
            if not waiting:
                waiting += self._writers(found)
        return found

    def _may_know(self, node: fx.Node) -> bool:
        body = self._state.outermost
        if node.op == "placeholder":
            return self._may_rest_on(node)
        fake = node.meta.get("example_value")
        if isinstance(fake, torch.Tensor) and (fake.device.type != "cpu" or is_large(fake)):
            return False
        if node in body.kept and not writes(node):
            return False
        return (node.op == "call_method" and only_plain(node)) or (node.op == "call_function" and computes(node.target))

    def _writers(self, found: set[fx.Node]) -> list[fx.Node]:
        """The other nodes that change something and may write to the memory of the tensors that these nodes give."""
        fakes = [fake for part in found if isinstance(fake := part.meta.get("example_value"), torch.Tensor)]
        memory = storages(fakes)
        changing = self._state.outermost.kept - found
        return [node for node in changing if storages(fake for _, fake in arguments_of(node)) & memory]

    def _input_of(self, node: fx.Node) -> GraphInput:
        return next(described for described in self._state.known_inputs.values() if described.node is node)

    def _may_rest_on(self, node: fx.Node) -> bool:
        """Return whether a placeholder is a small tensor as it was when the call began, which an object holds, or of ints or bools."""
        described = next((described for described in self._state.known_inputs.values() if described.node is node), None)
        if described is None or not self._state.demands.takes_objects:
            return False
        if not described.is_tensor or described.kind.is_disguised or described.kind.wraps or described.is_state:
            return False
        tensor, obj = described.value, described.obj
        if described.symbolic is not None or tensor.requires_grad or tensor.dtype.is_complex or data_of(tensor) is None:
            return False
        if is_given(described.source) and not self._may_read(described):
            return False
        if getattr(obj, "data", MISSING) is not MISSING or node in self._state.fakes.changed_inputs(self._state.outermost.kept):
            return False
        return self._state.dynamic.fixes_data or not self._state.dynamic.varies_below(described.source)

    def _may_read(self, described: GraphInput) -> bool:
        """Return whether the trace may depend on all data of an argument: of a few ints or bools, which count something, whereas floats differ in each call."""
        tensor, demands = described.value, self._state.demands
        is_few = type(tensor) is torch.Tensor and tensor.numel() <= MOST_GIVEN and not tensor.dtype.is_floating_point
        return is_few and demands.guards_data and self._state.dynamic.reads_data and not isinstance(described.source, ArrayTensor)

    def _rest_on(self, described: GraphInput) -> None:
        self._state.vm.guard(DataEquals, described.source.child(TensorData), data_of(described.value), numbers_in(described.value))
        self._depend_on(described.node)

    def _depend_on(self, node: fx.Node) -> None:
        """Note that the trace depends on the data of the input that a placeholder stands for."""
        vm = self._state.vm
        vm.trail.set(self, "_rests_on", [*self._rests_on, (node, vm.place())])

    # Computing.

    def _computed(self, nodes: list[fx.Node]) -> dict[fx.Node, Any]:
        """The results of nodes, which are passed in the order of the graph."""
        values: dict[fx.Node, Any] = {}
        body = self._state.outermost
        for node in nodes:
            if node.op == "placeholder":
                with torch.no_grad():
                    values[node] = self._input_of(node).value.detach().clone()
                continue
            args, kwargs = fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
            try:
                with body.notes[node].modes.applied(), torch.no_grad(), OnlyComputes(node in body.kept):
                    value = getattr(args[0], str(node.target))(*args[1:], **kwargs) if node.op == "call_method" else node.target(*args, **kwargs)
            except Exception:
                raise NotKnown from None
            if not looks_like(value, node.meta["example_value"]):
                raise NotKnown
            values[node] = value
        return values


def memory_of(described: GraphInput) -> tuple[int, int] | None:
    """The addresses at which an input's memory begins and ends: nothing else shows whether arrays and tensors share memory. None if there is no such memory."""
    if not described.is_tensor or described.kind.wraps or described.value.layout is not torch.strided or described.value.device.type != "cpu":
        return None
    storage = described.value.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + max(storage.nbytes(), 1)


def is_large(fake: torch.Tensor) -> bool:
    """Return whether it is known that a tensor has more data than is compared in each call."""
    return all(type(size) is int for size in fake.shape) and fake.numel() * fake.itemsize > MOST_BYTES


def is_given(source: Source) -> bool:
    """Return whether a path leads to an argument, which may be an array, and not to a value that an object holds."""
    return is_argument(source.base if isinstance(source, ArrayTensor) else source)


def only_plain(node: fx.Node) -> bool:
    """Return whether a node calls a method of a tensor."""
    owner = node.args[0]
    return isinstance(owner, fx.Node) and isinstance(owner.meta["example_value"], torch.Tensor)


def writes(node: fx.Node) -> bool:
    """Return whether a node writes its result to a tensor and has no other effect."""
    if node.op == "call_method":
        return only_writes(str(node.target))
    return node.target in PURE_TARGETS or getattr(node.target, "__module__", None) in OF_ARRAYS


def computes(target: Any) -> bool:
    """Return whether the target of a node is a function that computes its result with torch's operators, and does nothing else."""
    if target in PURE_TARGETS or isinstance(target, BUILTINS):
        return True
    return getattr(target, "__module__", None) in MODULES


def looks_like(value: Any, fake: Any) -> bool:
    """Return whether a real value has the form of its fake."""
    if not isinstance(fake, torch.Tensor):
        return not isinstance(value, torch.Tensor)
    if not isinstance(value, torch.Tensor) or value.dtype != fake.dtype or value.device != fake.device or value.dim() != fake.dim():
        return False
    return all(type(size) is not int or size == real for size, real in zip(fake.shape, value.shape, strict=True))
