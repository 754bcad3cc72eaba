"""torch.masked: masked tensors that the program makes are values of the graph as they are.

    torch.masked.masked_tensor(x, x > 0).sum(1).get_data()      # three nodes

The functions that make one, and that return its data with a gradient, are nodes, because torch implements them with autograd code that it makes at each call.
Operators on one run with torch's own override. The rest of its methods is traced.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.masked import _ops
from torch.masked.maskedtensor.core import MaskedTensor

from framejit import breaks
from framejit.breaks import Break
from framejit.graph.trace_state import TraceState
from framejit.graph.wrappers import Wrappers
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.tensorkind import TensorKind, tensor_kind
from framejit.objects.tensors.torchcall import enter
from framejit.plain import masked as plain
from framejit.program import classes


@tensor_kind(30)
class MaskedTensors(TensorKind):
    """Masked tensors: a graph has those that it makes, and none from outside."""

    name = "masked"
    stays_itself = True
    brings_its_own = True
    has_memory = False

    def holds_class(self, cls: type) -> bool:
        return cls is MaskedTensor

    def refusal(self, tensor: torch.Tensor) -> Break | None:
        return breaks.TensorSubclass(classes.qualname(type(tensor)))

    def note_result(self, state: TraceState, made: Object) -> None:
        if not state.demands.takes_masked:
            state.vm.unsupported(breaks.TensorSubclass("MaskedTensor, in a graph that the backend can't compile"))
        state.part(Wrappers).meet(self)

    def parts(self, fake: torch.Tensor) -> Sequence[torch.Tensor]:
        return [fake.__dict__["_masked_data"], fake.__dict__["_masked_mask"]]

    def refusal_as_result(self, fake: torch.Tensor) -> Break | None:
        return MAKES_MASKED if fake.requires_grad else None

    def refusal_as_output(self, state: TraceState, node: fx.Node) -> Break | None:
        return LEAVES


MAKES_MASKED = breaks.NotInsideAutogradNode("making a masked tensor with a gradient, which is masked too,")
LEAVES = breaks.NotInsideAutogradNode("a masked tensor, which leaves the graph,")


def makes_node(function: Callable[..., Any], target: Callable[..., Any]) -> None:
    """Make calls of a function nodes that call `target`."""
    signature = inspect.signature(target)

    def call(vm: VM, *args: Object, **kwargs: Object) -> Object:
        return enter(vm, target, [], {name: vm.observe(value) for name, value in signature.bind(*args, **kwargs).arguments.items()})

    models(function)(call)


def masked(data: torch.Tensor, mask: torch.Tensor, requires_grad: bool = False) -> torch.Tensor:
    """`MaskedTensor(data, mask, requires_grad)` (runs in graphs)."""
    made: torch.Tensor = MaskedTensor(data, mask, requires_grad)
    return made


def masked_from(data: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """`as_masked_tensor(data, mask)` (runs in graphs)."""
    made: torch.Tensor = MaskedTensor._from_values(data, mask)
    return made


def data_of(tensor: Any) -> torch.Tensor:
    """`tensor.get_data()` (runs in graphs)."""
    found: torch.Tensor = tensor.get_data()
    return found


makes_node(MaskedTensor, masked)
makes_node(MaskedTensor._from_values, masked_from)
makes_node(MaskedTensor.get_data, data_of)

COMBINE = _ops._combine_input_and_mask


@models(COMBINE)
def combine(vm: VM, *args: Object, **kwargs: Object) -> Object:
    """The input of a function of torch.masked with its mask."""
    return vm.call_app(plain.combine, [vm.from_real(COMBINE), *args], kwargs)
