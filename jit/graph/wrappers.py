"""Keeps track of tensors in a trace that have their data in others: wrappers, distributed tensors, and jagged nested tensors with their sizes."""

from __future__ import annotations

from typing import Any

import torch

from framejit import breaks
from framejit.graph.jagged import JaggedContext, is_nested_int, memory_of
from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.trace_state import TraceState
from framejit.guards.relations import Distinct
from framejit.objects.core.object import Object
from framejit.objects.tensors.nestedsize import NestedSize
from framejit.objects.tensors.tensorkind import kind_of_class
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.torch_state.torch_classes import is_jagged
from framejit.torch_state.torch_modes import MODE_CHANGES

ALLOWS_OTHERS = getattr(torch._C, "_get_dtensor_allow_implicit_replication", None)
"""Says whether operators take distributed tensors and others together."""
BESIDE_NESTED = breaks.TensorSubclass("NestedTensor or MaskedTensor, beside tensors that wrap others in another way")


class Wrappers:
    """The wrappers that one trace has met. `nested`: the nested tensors that it knows; `lengths`: the tensors from outside that hold the lengths of
    such; `has_distributed`, `has_masked`: whether there has been such a tensor."""

    def __init__(self, state: TraceState) -> None:
        self._state = state
        self.nested: list[TensorObject] = []
        self.lengths: list[Object] = []
        self.has_distributed = False
        self.has_masked = False

    def meet_wrapper(self) -> None:
        """Note that the graph has a tensor that wraps others. What its class overrides is asked by the trace, and by nothing else until the trace ends."""
        if self.nested or self.has_masked:
            self._state.vm.unsupported(BESIDE_NESTED)
        self._begin()
        self._state.modes.switch_overrides_off()

    def _begin(self) -> None:
        """Note that the graph has a tensor whose data lies in others. AOTAutograd doesn't see that a change of one of these, made before, changes it too."""
        changes = {node for node in self._state.outermost.kept | self._state.body.kept if node.target not in MODE_CHANGES}
        if self._state.fakes.changed_inputs(changes) and self._state.is_one_autograd_node and not self._state.fakes.wrappers:
            self._state.vm.unsupported(breaks.TensorSubclass("that wraps others, in a graph in which a tensor has been changed before"))
        self._state.fakes.meet_wrapper()

    def meet_distributed(self) -> None:
        """Note that the graph has a distributed tensor."""
        if not self._state.demands.takes_distributed:
            self._state.vm.unsupported(breaks.TensorSubclass("DTensor, in a graph that the backend can't compile"))
        if ALLOWS_OTHERS is not None:
            self._state.vm.guards.read(ALLOWS_OTHERS)
        self._state.trail.set(self, "has_distributed", True)
        self.meet_wrapper()

    def meet_nested(self) -> None:
        """Note that the graph has a nested tensor. Its class is asked by the operators of the graph."""
        if not self._state.demands.takes_nested:
            self._state.vm.unsupported(breaks.TensorSubclass("NestedTensor"))
        if self._state.fakes.wrappers and not self.nested:
            self._state.vm.unsupported(BESIDE_NESTED)
        self._begin()

    def meet_masked(self) -> None:
        """The graph has made a masked tensor, whose class is asked by the operators of the graph."""
        if not self._state.demands.takes_masked:
            self._state.vm.unsupported(breaks.TensorSubclass("MaskedTensor, in a graph that the backend can't compile"))
        if self._state.fakes.wrappers and not self.has_masked:
            self._state.vm.unsupported(BESIDE_NESTED)
        self._state.trail.set(self, "has_masked", True)
        self._begin()

    def note_nested(self, obj: TensorObject) -> None:
        """The trace knows this one."""
        self.nested.append(obj)
        self._state.trail.learned(self, self.nested.pop)

    def holds_lengths(self, obj: Object) -> None:
        """A tensor is one of those for which sizes of nested tensors stand: it is guarded to be none of the others."""
        if obj.source is None or any(obj is known for known in self.lengths):
            return
        if self.lengths:
            self._state.vm.relate(Distinct, obj.source, tuple(known.source for known in self.lengths))
        self.lengths.append(obj)
        self._state.trail.learned(self, self.lengths.pop)

    def size(self, size: Any) -> Object:
        """The size of a nested tensor that stands for its lengths, as the program has it."""
        for obj in self.nested:
            for dim, known in enumerate(obj.look(self._state.vm).size()):
                if is_nested_int(known) and known.node.expr == size.node.expr:
                    return NestedSize(obj, dim, self._state.size_node(obj, dim, known))
        self._state.vm.unsupported(breaks.UnsupportedOperation("a size computed from the lengths of a nested tensor"))

    def changes_wrapped(self, changed: list[torch.Tensor]) -> bool:
        """Return whether a change of these fakes may change a tensor from outside, one that wraps others, or one that is wrapped."""
        if any(kind_of_class(type(fake)).stays_itself for fake in changed):
            return True
        return bool(memory_of(changed) & memory_of([*self._state.input_fakes(), *self._state.fakes.that_wrap()]))

    def changes_nested(self, changed: list[torch.Tensor]) -> bool:
        """Return whether a change of these fakes may change the data of a nested tensor from outside."""
        outside = [described.node.meta["example_value"] for described in self._state.known_inputs.values() if isinstance(described.symbolic, JaggedContext)]
        values = [fake._values if is_jagged(type(fake)) else fake for fake in changed]
        return bool(memory_of(values) & memory_of(outside))


@rule(Phase.REFUSE)
def refuse_without_overrides(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at an operator on tensors whose class needs `__torch_function__`, which the program has switched off."""
    if state.fakes.wrappers and not state.function_modes.asks_subclasses() and any(kind_of_class(type(fake)).brings_its_own for fake in operation.fakes):
        state.vm.unsupported(breaks.TensorSubclass("NestedTensor or MaskedTensor, whose __torch_function__ is switched off"))


@rule(Phase.CHECK_CHANGE)
def refuse_change(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at a change of data that lies in several tensors at once."""
    wrappers = state.part(Wrappers)
    if wrappers.nested and wrappers.changes_nested(operation.changed()):
        state.vm.unsupported(breaks.TensorSubclass(f"NestedTensor, of which {operation.name} changes the data of one from outside"))
    if state.fakes.wrappers and state.is_one_autograd_node and wrappers.changes_wrapped(operation.changed()):
        state.vm.unsupported(breaks.TensorSubclass(f"that wraps others, in a graph in which {operation.name} changes a tensor"))
