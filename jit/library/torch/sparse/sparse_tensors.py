"""Sparse tensors in graphs: properties that depend on the number of elements are known for those from outside, and for no others.

    A._values()     # A from outside: another input of the graph, whose guards say how many there are
    A * 2           # a node; how many elements that has isn't known while tracing
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framejit import breaks
from framejit.breaks import Break
from framejit.graph.builder import TorchVM
from framejit.graph.fake import refusal_of_record, refusal_of_values, storages
from framejit.graph.graph_inputs import GraphInputs
from framejit.graph.inputs import is_static
from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.trace_state import TraceState
from framejit.graph.values import tensors_of
from framejit.guards.kinds import TensorMatch
from framejit.guards.source import MISSING, Source
from framejit.guards.tensor_source import SparsePart
from framejit.guards.tensor_spec import tensor_spec
from framejit.library.torch.sparse.sparse import BASE, PARTS, context_of_sparse, is_sparse, parts_of_sparse, rest_on_form
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.tensorkind import TensorKind, tensor_kind
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.torch_state.operator_exceptions import PRODUCTS_OF_SPARSE
from framejit.torch_state.torch_classes import is_plain


@tensor_kind(100)
class SparseTensors(TensorKind):
    """Tensors that have their data in tensors of indices and values. The sizes of one from outside are constants."""

    name = "sparse"
    has_memory = False

    def holds(self, tensor: torch.Tensor) -> bool:
        return is_sparse(tensor)

    def refusal(self, tensor: torch.Tensor) -> Break | None:
        return (refusal_of_values(tensor) if tensor.requires_grad else None) or refusal_of_record(tensor)

    def make_input(self, inputs: GraphInputs, source: Source, tensor: torch.Tensor, plain: torch.Tensor) -> TensorObject:
        state = inputs.state
        if not state.demands.takes_sparse:
            state.vm.unsupported(breaks.UnsupportedValue(f"a tensor of layout {plain.layout}, with which the backend can't compile the graph"))
        if not is_static(source, plain) and state.dynamic.dimensions(source, plain):
            state.vm.unsupported(breaks.UnsupportedValue(f"a tensor of layout {plain.layout}, whose sizes vary"))
        state.refresh()
        with state.modes.initial.applied():
            context = context_of_sparse(source, plain)
            rest_on_form(state.vm, source, plain, context)
        fake = state.fakes.of_input(tensor, context)
        state.vm.guard(TensorMatch, source, tensor_spec(tensor))
        return inputs.add(source, tensor, plain, fake, context)

    def parts(self, fake: torch.Tensor) -> Sequence[torch.Tensor]:
        return list(parts_of_sparse(fake))

    def sized(self, fake: torch.Tensor) -> Sequence[torch.Tensor]:
        return ()

    def refusal_as_argument(self, fake: torch.Tensor) -> Break | None:
        return TAKES_SPARSE if is_lost(fake) else None

    def refusal_as_result(self, fake: torch.Tensor) -> Break | None:
        return MAKES_SPARSE if is_lost(fake) else None


TAKES_SPARSE = breaks.NotInsideAutogradNode("taking a sparse tensor with a gradient, or in a compressed layout where gradients are recorded,")
MAKES_SPARSE = breaks.NotInsideAutogradNode("making a sparse tensor with a gradient")


def is_lost(sparse: torch.Tensor) -> bool:
    """Return whether AOTAutograd can't do with a sparse tensor: it would lose its gradient, and may end the process over one that a backward pass needs."""
    return sparse.requires_grad if sparse.layout is torch.sparse_coo else torch.is_grad_enabled()


UNDERSCORED = {"indices": BASE._indices, "values": BASE._values}
"""Methods of coalesced tensors in coordinate format, and those that return the same tensors without checking that they are coalesced."""


def part_of(vm: TorchVM, tensor: TensorObject, name: str) -> TensorObject | None:
    """One of the tensors that hold the data of a sparse tensor from outside; None if it isn't known, or autograd must know about it."""
    layout = tensor.look(vm).layout
    if tensor.source is None or not is_plain(tensor.cls) or tensor.data is not MISSING or (name == "values" and tensor.fake.requires_grad):
        return None
    method = getattr(BASE, name)
    if name in UNDERSCORED and layout is torch.sparse_coo:
        if not tensor.fake.is_coalesced():
            return None
        method = UNDERSCORED[name]
    if method not in PARTS[layout]:
        return None
    return vm.graph.inputs.of_part(tensor, tensor.source.child(SparsePart, method))


def asks_for_elements(method: Callable[..., Any]) -> None:
    """Let a method return a component of a sparse tensor from outside. For other sparse tensors, it runs natively."""

    def ask(vm: TorchVM, tensor: TensorObject) -> Object:
        if not is_sparse(tensor.look(vm)):
            return enter(vm, method, [tensor])
        part = part_of(vm, tensor, method.__name__)
        if part is None:
            vm.unsupported(breaks.DataDependent(f"{method.__name__}() of a sparse tensor"))
        return enter(vm, torch.Tensor.detach, [part])

    models(method)(ask)


for _method in (BASE.values, BASE.indices, BASE._values, BASE._indices, BASE.crow_indices, BASE.col_indices, BASE.ccol_indices, BASE.row_indices):
    asks_for_elements(_method)


@models(torch.Tensor._nnz)
def number_of_elements(vm: TorchVM, tensor: TensorObject) -> Object:
    """`tensor._nnz()`"""
    layout = tensor.look(vm).layout
    if not is_sparse(tensor.fake):
        return enter(vm, torch.Tensor._nnz, [tensor])
    part = part_of(vm, tensor, PARTS[layout][-1 if layout is torch.sparse_coo else 1].__name__)
    if part is None:
        vm.unsupported(breaks.DataDependent("_nnz() of a sparse tensor"))
    return vm.graph.size(part, 0 if layout is torch.sparse_coo else part.look(vm).dim() - 1)


@models(torch.Tensor.is_coalesced)
def is_coalesced(vm: VM, tensor: TensorObject) -> Object:
    """`tensor.is_coalesced()`"""
    if tensor.look(vm).layout is torch.sparse_coo and tensor.source is None:
        vm.unsupported(breaks.DataDependent("is_coalesced() of a sparse tensor"))
    return enter(vm, torch.Tensor.is_coalesced, [tensor])


@models(torch.Tensor.coalesce)
def coalesce(vm: TorchVM, tensor: TensorObject) -> Object:
    """`tensor.coalesce()`. A tensor without elements may claim to be coalesced when it isn't: unless it is from outside, a node makes sure."""
    if tensor.look(vm).layout is not torch.sparse_coo or tensor.source is not None or not tensor.fake.is_coalesced():
        return enter(vm, torch.Tensor.coalesce, [tensor])
    if vm.graph.is_one_autograd_node:
        vm.unsupported(breaks.DataDependent("coalesce() of a sparse tensor that may be coalesced"))
    return enter(vm, coalesced, [tensor])


def coalesced(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor.coalesce()`, which on fakes is never the tensor itself (runs in graphs)."""
    return tensor.clone() if isinstance(tensor, FakeTensor) else tensor.coalesce()


@rule(Phase.REFUSE)
def reject_sparse(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at an operator on sparse tensors that the backend would compile as if they were dense."""
    operands, name = operation.fakes, operation.name
    if not state.demands.takes_sparse and any(map(is_sparse, operands)):
        *others, first, second = operands if len(operands) > 1 else (*operands, *operands)
        if name not in PRODUCTS_OF_SPARSE or second.dim() < 2 or not is_sparse(first) or any(map(is_sparse, (*others, second))):
            state.vm.unsupported(breaks.UnsupportedOperation(f"{name} of a sparse tensor, which the backend can't compile"))


@rule(Phase.CHECK)
def reject_sparse_result(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at an operator that makes a sparse tensor, if the backend can't compile that."""
    if not state.demands.makes_sparse and any(map(is_sparse, tensors_of(operation.result))):
        what = f"{operation.name}, which gives a sparse tensor, with which the backend can't compile the graph"
        state.vm.unsupported(breaks.UnsupportedOperation(what))


@rule(Phase.CHECK_CHANGE)
def reject_changed_sparse(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at an operator that changes a sparse tensor, or one of those in which a sparse tensor from outside has its data."""
    changed = operation.changed()
    parts = [described.node.meta["example_value"] for described in state.known_inputs.values() if isinstance(described.source, SparsePart)]
    if any(map(is_sparse, changed)) or (parts and not storages(parts).isdisjoint(storages(changed))):
        state.vm.unsupported(breaks.UnsupportedOperation(f"{operation.name}, which changes a sparse tensor"))
