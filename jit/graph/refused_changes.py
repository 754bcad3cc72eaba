"""Rules that stop the trace at a change of a tensor that compiled code can't make as eager does."""

from __future__ import annotations

import torch

from framejit import breaks
from framejit.graph.fake import is_of_others, storages
from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.trace_state import TraceState
from framejit.torch_state.operator_exceptions import CHANGE_TENSOR_ITSELF


@rule(Phase.CHECK_CHANGE)
def reject_handled_change(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at a change of a tensor from outside that requires a gradient, if the program handles exceptions: in another call, the tensor may be
    a leaf, or a view of one, and then eager raises. If a graph that changes its inputs raises, its frame can't run uncompiled any more. What changes only
    what autograd knows of a tensor, as `requires_grad_()` does, raises by what guards hold: whether the tensor requires a gradient, and its dtype.
    """
    if state.is_one_autograd_node or not torch.is_grad_enabled() or operation.name in CHANGE_TENSOR_ITSELF:
        return
    asked = [fake for fake in operation.changed() if fake.requires_grad and fake.layout is torch.strided]
    if asked and state.vm.note_handlers() and not storages(asked).isdisjoint(storages(state.input_fakes())):
        what = f"{operation.name}, which changes a tensor from outside that requires a gradient, under a handler of the program's"
        state.vm.unsupported(breaks.MayRaise(what))


@rule(Phase.CHECK_CHANGE)
def reject_changed_subclass(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at a change of a tensor of a subclass from outside. In the graph it is a view, and autograd takes the history of a changed view from
    its base, which may have no record of a gradient.
    """
    if any(described.kind.is_disguised and state.fakes.has_new_version(described.node) for described in state.known_inputs.values()):
        state.vm.unsupported(breaks.TensorSubclass(f"that requires a gradient, of which {operation.name} changes a tensor from outside"))


@rule(Phase.CHECK)
def reject_changed_constant(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at an operator of another library that changes a number made by `torch.tensor`: AOTAutograd's trace continues with the old number."""
    if operation.has_forgotten and state.is_one_autograd_node and is_of_others(operation.target):
        what = f"{operation.name}, which changes a number made by torch.tensor in a list that it is given"
        state.vm.unsupported(breaks.UnsupportedOperation(what))
