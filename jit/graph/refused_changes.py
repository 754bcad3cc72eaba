"""Rules that stop the trace at a change of a tensor, or at an operator that returns nothing, where compiled code can't do what eager does."""

from __future__ import annotations

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.utils import _pytree as pytree

from framejit import breaks
from framejit.graph.fake import is_declared, is_of_others, storages
from framejit.graph.inputs import GraphInput
from framejit.graph.joined import memory_of
from framejit.graph.metadata import CHANGES
from framejit.graph.on_fakes import run_on_fakes
from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.prune import is_declared_to_act
from framejit.graph.trace_state import TraceState
from framejit.guards.kinds import Equals
from framejit.guards.source import CAttr
from framejit.torch_state.operator_exceptions import CHANGE_TENSOR_ITSELF
from framejit.torch_state.operator_facts import changes_form
from framejit.torch_state.torch_modes import MODE_CHANGES


@rule(Phase.CHECK_CHANGE)
def reject_handled_change(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at a change of a tensor from outside that requires a gradient, if the program handles exceptions: in another call, the tensor may be
    a leaf, or a view of one, and then eager raises. If a graph that changes its inputs raises, its frame can't run uncompiled any more. A tensor that was
    computed, and is no view, is guarded to be so. What changes only what autograd knows of a tensor, as `requires_grad_()` does, raises by what guards hold:
    whether the tensor requires a gradient, and its dtype.
    """
    if not torch.is_grad_enabled() or operation.name in CHANGE_TENSOR_ITSELF:
        return
    asked = [fake for fake in operation.changed() if fake.requires_grad and fake.layout is torch.strided]
    if asked and state.vm.note_handlers():
        memory = storages(asked)
        inputs = [described for described in state.known_inputs.values() if described.is_tensor]
        changed = [described for described in inputs if not memory.isdisjoint(storages([described.node.meta["example_value"]]))]
        if not all(map(is_computed, changed)):
            what = f"{operation.name}, which changes a tensor from outside that requires a gradient, under a handler of the program's"
            state.vm.unsupported(breaks.MayRaise(what))
        for described in changed:
            state.vm.guard(Equals, described.source.child(CAttr, "is_leaf"), False)
            state.vm.guard(Equals, described.source.child(CAttr, "_base"), None)


def is_computed(described: GraphInput) -> bool:
    """Return whether an input is a plain tensor that was computed from one that requires a gradient, and is no view: autograd lets each operator change it."""
    tensor = described.value
    return type(tensor) is torch.Tensor and not described.is_state and tensor.requires_grad and not tensor.is_leaf and not tensor._is_view()


@rule(Phase.CHECK_CHANGE)
def reject_unrecorded_change(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at a change that autograd doesn't record (`x.data.mul_(2)`, `x.detach().add_(1)`) of a tensor from outside that has a record: where
    gradients are recorded, AOTAutograd copies the new data into the tensor after the graph, and this copy would be its record. Leaves change in another way.
    """
    if not state.is_one_autograd_node or not torch.is_grad_enabled():
        return
    memory = storages([fake for fake in operation.changed() if not fake.requires_grad and fake.layout is torch.strided])
    for described in state.known_inputs.values() if memory else ():
        if has_record(described) and not memory.isdisjoint(storages([described.node.meta["example_value"]])):
            what = "memory of a tensor from outside that autograd has a record of, which isn't to see the change"
            state.vm.unsupported(breaks.MutatedInputUnsupported(what))


def has_record(described: GraphInput) -> bool:
    """Return whether an input was computed from a tensor that requires a gradient."""
    return described.is_tensor and not described.is_state and described.value.requires_grad and not described.value.is_leaf


@rule(Phase.CHECK_CHANGE)
def reject_changed_subclass(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at a change of a tensor of a subclass from outside. In the graph it is a view, and autograd takes the history of a changed view from
    its base, which may have no record of a gradient.
    """
    if any(described.kind.is_disguised and state.fakes.has_new_version(described.node) for described in state.known_inputs.values()):
        state.vm.unsupported(breaks.TensorSubclass(f"that requires a gradient, of which {operation.name} changes a tensor from outside"))


@rule(Phase.CHECK_CHANGE)
def reject_changed_inference(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at a change of an inference tensor outside of inference mode, which raises for some operators and views: AOTAutograd's changes do."""
    if not state.is_one_autograd_node or torch.is_inference_mode_enabled():
        return
    out = operation.fake_kwargs.get("out")
    if any(fake.is_inference() for fake in (*operation.changed(), *([out] if isinstance(out, torch.Tensor) else ()))):
        state.vm.unsupported(breaks.MutatedInputUnsupported("an inference tensor outside of inference mode"))


@rule(Phase.CHECK_CHANGE)
def reject_changed_cast(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at a change of the memory of a view from outside whose fake is no view, so that it shows nothing of what autograd knows of the view."""
    views = [node.meta["example_value"] for node in state.cast_views.values()]
    if views and not storages(views).isdisjoint(storages(operation.changed())):
        state.vm.unsupported(breaks.MutatedInputUnsupported("memory of a view from outside, of another dtype than its base's"))


@rule(Phase.CHECK_CHANGE)
def reject_other_dtype(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at `out=` with a tensor of another dtype than the result has. Most operators raise then, but many of them do so on real tensors only:
    AOTAutograd's decompositions don't. Other graphs stop there if the tensor is from outside and the program handles exceptions: if a graph that changes its
    inputs raises, its frame can't run uncompiled any more.
    """
    given = [fake for fake in pytree.tree_leaves(operation.fake_kwargs.get("out")) if isinstance(fake, torch.Tensor)]
    if not given:
        return
    if not state.is_one_autograd_node:
        inputs = [described.node for described in state.known_inputs.values() if described.is_tensor]
        if storages(given).isdisjoint(memory_of(inputs)) or not state.vm.note_handlers():
            return
    others = {name: value for name, value in operation.fake_kwargs.items() if name != "out"}
    with state.fakes.running():
        made = pytree.tree_leaves(run_on_fakes(operation.target, operation.fake_args, others))
    if [fake.dtype for fake in given] != [fake.dtype for fake in made]:
        state.vm.unsupported(breaks.UnsupportedOperation(f"{operation.name}, which gets a tensor of another dtype than its result has as `out`"))


@rule(Phase.CHECK)
def reject_changed_constant(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at an operator of another library that changes a number made by `torch.tensor`: AOTAutograd's trace continues with the old number."""
    if operation.has_forgotten and state.is_one_autograd_node and is_of_others(operation.target):
        what = f"{operation.name}, which changes a number made by torch.tensor in a list that it is given"
        state.vm.unsupported(breaks.UnsupportedOperation(what))


@rule(Phase.CHECK)
def reject_handled_check(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at an operator that returns nothing and changes no tensor, if the program handles exceptions: a graph with it isn't run again."""
    if operation.result is None and not operation.changes and not operation.inner_graphs and state.vm.note_handlers():
        state.vm.unsupported(breaks.UnsupportedOperation(f"{operation.name}, which returns nothing, under a handler of the program's"))


@rule(Phase.CHECK)
def reject_undeclared_effect(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at an operator of another library that returns nothing and is not said to change anything: AOTAutograd leaves it out of its graph."""
    target = operation.target
    if operation.result is not None or operation.changes or not state.is_one_autograd_node or not is_of_others(target) or is_declared(target):
        return
    overloads = [getattr(target, name) for name in target.overloads()] if isinstance(target, OpOverloadPacket) else [target]
    if not any(isinstance(overload, OpOverload) and is_declared_to_act(overload) for overload in overloads):
        state.vm.unsupported(breaks.UnsupportedOperation(f"{operation.name}, which returns nothing and isn't declared to change anything"))


@rule(Phase.CHECK_CHANGE)
def reject_changed_form_and_data(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace where a graph would change both the form and the data of one of its inputs: where no gradients are recorded, AOTAutograd (torch 2.13)
    copies the data into the tensor as it was before, and forgets the form.
    """
    kept = [node for body in state.bodies() for node in body.kept]
    is_recorded = torch.is_grad_enabled() and all(node.target not in MODE_CHANGES for node in kept)
    if is_recorded or not state.is_one_autograd_node:
        return
    inputs = {described.node for described in state.known_inputs.values() if described.is_tensor}
    memory = storages(operation.changed()) & memory_of(inputs)
    if not memory:
        return
    form, data = set[int](), set[int]()
    changes = [(node.target, node.args[:1], memory_of(node.meta.get(CHANGES, ()))) for node in kept]
    for target, first, changed in [*changes, (operation.target, operation.args[:1], memory)]:
        if not (isinstance(target, str) and changes_form(target)):
            data |= changed
        elif first[0] in inputs:
            form |= changed
    if memory & form & data:
        what = f"{operation.name}, after which both the data and the form of a tensor from outside are changed"
        state.vm.unsupported(breaks.UnsupportedOperation(what))
