"""Keeps track of tensors in a trace that have their data in others: wrappers, distributed tensors, masked tensors and jagged nested tensors."""

from __future__ import annotations

import torch

from framejit import breaks
from framejit.graph.fake import storages
from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.trace_state import TraceState
from framejit.objects.tensors.tensorkind import TensorKind, kind_of_class
from framejit.torch_state.torch_modes import MODE_CHANGES

BESIDE_OTHERS = breaks.TensorSubclass("NestedTensor or MaskedTensor, beside tensors that wrap others in another way")


class Wrappers:
    """The wrappers that one trace has met. `kinds`: the kinds of tensors that they are of."""

    def __init__(self, state: TraceState) -> None:
        self._state = state
        self.kinds: frozenset[TensorKind] = frozenset()

    def meet(self, kind: TensorKind) -> None:
        """Note that the graph has a tensor of a kind that wraps others. Of a kind that brings its own operators, the class is asked by the operators of the
        graph; what other classes override is asked by the trace, and by nothing else until the trace ends."""
        if any(kind.brings_its_own or other.brings_its_own for other in self.kinds - {kind}):
            self._state.vm.unsupported(BESIDE_OTHERS)
        self._begin()
        self._state.trail.set(self, "kinds", self.kinds | {kind})
        if not kind.brings_its_own:
            self._state.modes.switch_overrides_off()

    def has_met(self, name: str) -> bool:
        """Return whether there has been a tensor of the kind of this name."""
        return any(kind.name == name for kind in self.kinds)

    def _begin(self) -> None:
        """Note that the graph has a tensor whose data lies in others. AOTAutograd doesn't see that a change of one of these, made before, changes it too."""
        changes = {node for node in self._state.outermost.kept | self._state.body.kept if node.target not in MODE_CHANGES}
        if self._state.fakes.changed_inputs(changes) and self._state.is_one_autograd_node and not self._state.fakes.wrappers:
            self._state.vm.unsupported(breaks.TensorSubclass("that wraps others, in a graph in which a tensor has been changed before"))
        self._state.fakes.meet_wrapper()

    def changes_wrapped(self, changed: list[torch.Tensor]) -> bool:
        """Return whether a change of these fakes may change a tensor from outside, one that wraps others, or one that is wrapped."""
        if any(kind_of_class(type(fake)).stays_itself for fake in changed):
            return True
        return bool(storages(changed) & storages([*self._state.input_fakes(), *self._state.fakes.that_wrap()]))


@rule(Phase.REFUSE)
def reject_without_overrides(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at an operator on tensors whose class needs `__torch_function__`, which the program has switched off."""
    if state.fakes.wrappers and not state.function_modes.asks_subclasses() and any(kind_of_class(type(fake)).brings_its_own for fake in operation.fakes):
        state.vm.unsupported(breaks.TensorSubclass("NestedTensor or MaskedTensor, whose __torch_function__ is switched off"))


@rule(Phase.CHECK_CHANGE)
def reject_change(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at a change of data that lies in several tensors at once."""
    if state.fakes.wrappers and state.is_one_autograd_node and state.part(Wrappers).changes_wrapped(operation.changed()):
        state.vm.unsupported(breaks.TensorSubclass(f"that wraps others, in a graph in which {operation.name} changes a tensor"))
