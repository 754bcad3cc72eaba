"""The jagged nested tensors of one trace: which tensors hold their lengths, what their sizes are to the program, and which changes would reach one."""

from __future__ import annotations

from typing import Any

import torch
from torch import SymInt

from framejit import breaks
from framejit.graph.fake import storages
from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.shapes import SIZES
from framejit.graph.trace_state import TraceState
from framejit.guards.relations import Distinct
from framejit.library.torch.jagged.jagged_parts import JaggedContext, is_nested_int
from framejit.objects.core.object import Object
from framejit.objects.tensors.nestedsize import NestedSize
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.torch_state.torch_classes import is_jagged


class KnownNested:
    """The nested tensors that one trace knows, and the tensors from outside that hold the lengths of such."""

    def __init__(self, state: TraceState) -> None:
        self._state = state
        self.tensors: list[TensorObject] = []
        self._lengths: list[Object] = []

    def note(self, obj: TensorObject) -> None:
        """The trace knows this one."""
        self.tensors.append(obj)
        self._state.trail.learned(self, self.tensors.pop)

    def holds_lengths(self, obj: Object) -> None:
        """A tensor is one of those for which sizes of nested tensors stand: it is guarded to be none of the others."""
        if obj.source is None or any(obj is known for known in self._lengths):
            return
        if self._lengths:
            self._state.vm.relate(Distinct, obj.source, tuple(known.source for known in self._lengths))
        self._lengths.append(obj)
        self._state.trail.learned(self, self._lengths.pop)

    def size(self, size: Any) -> Object:
        """The size of a nested tensor that stands for its lengths, as the program has it."""
        for obj in self.tensors:
            for dim, known in enumerate(obj.look(self._state.vm).size()):
                if is_nested_int(known) and known.node.expr == size.node.expr:
                    return NestedSize(obj, dim, self._state.size_node(obj, dim, known))
        self._state.vm.unsupported(breaks.UnsupportedOperation("a size computed from the lengths of a nested tensor"))

    def are_changed(self, changed: list[torch.Tensor]) -> bool:
        """Return whether a change of these fakes may change the data of a nested tensor from outside."""
        outside = [described.node.meta["example_value"] for described in self._state.known_inputs.values() if isinstance(described.symbolic, JaggedContext)]
        values = [fake._values if is_jagged(type(fake)) else fake for fake in changed]
        return bool(storages(values) & storages(outside))


def size_of_nested(state: TraceState, size: SymInt) -> Object | None:
    """The size of a nested tensor that stands for its lengths; None for another size."""
    return state.part(KnownNested).size(size) if is_nested_int(size) else None


SIZES.append(size_of_nested)


@rule(Phase.CHECK_CHANGE)
def reject_change_of_nested(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at a change of the data of a nested tensor from outside."""
    nested = state.part(KnownNested)
    if nested.tensors and nested.are_changed(operation.changed()):
        state.vm.unsupported(breaks.TensorSubclass(f"NestedTensor, of which {operation.name} changes the data of one from outside"))
