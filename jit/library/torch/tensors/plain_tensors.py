"""Kinds of tensors that a graph has as plain ones: plain tensors themselves, disguised ones, and those inside the program's own transforms of torch.func.

    class Named(torch.Tensor): ...        # inherits a __torch_function__: disguised
"""

from __future__ import annotations

import torch

from framejit import breaks
from framejit.breaks import Break
from framejit.graph.fake import refusal_of_record, refusal_of_values
from framejit.graph.graph_inputs import GraphInputs
from framejit.guards.source import Source
from framejit.objects.tensors.tensorkind import TensorKind, tensor_kind
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.torch_state.torch_classes import as_class, has_torch_function, overrides_operators
from framejit.torch_state.transforms_in_force import is_functorch_wrapped_tensor


@tensor_kind(1000)
class PlainTensors(TensorKind):
    """torch.Tensor, torch.nn.Parameter, subclasses that have switched `__torch_function__` off, and in a graph the fakes of all these."""

    name = "plain"

    def holds_class(self, cls: type) -> bool:
        return True

    def refusal(self, tensor: torch.Tensor) -> Break | None:
        return refusal_of_values(tensor) or refusal_of_record(tensor)


@tensor_kind(80)
class DisguisedTensors(TensorKind):
    """Tensors whose class has a `__torch_function__`. The trace calls it before a function becomes an operator, so the operators get plain tensors."""

    name = "disguised"
    is_disguised = True

    def holds_class(self, cls: type) -> bool:
        return has_torch_function(cls) and not overrides_operators(cls)

    def make_input(self, inputs: GraphInputs, source: Source, tensor: torch.Tensor, plain: torch.Tensor) -> TensorObject:
        return inputs.of_kind(source, tensor, as_class(tensor, torch.Tensor))


@tensor_kind(90)
class TransformedTensors(TensorKind):
    """Tensors that functorch has wrapped: the program has a transform of torch.func's around the call. The graph's operators are transformed when they run,
    so the trace sees such a tensor without its mapped dimension."""

    name = "transformed"
    is_in_graphs = False

    def holds(self, tensor: torch.Tensor) -> bool:
        return torch._is_functional_tensor(tensor) or is_functorch_wrapped_tensor(tensor)

    def refusal(self, tensor: torch.Tensor) -> Break | None:
        return None if is_functorch_wrapped_tensor(tensor) else INSIDE_TRANSFORM

    def make_input(self, inputs: GraphInputs, source: Source, tensor: torch.Tensor, plain: torch.Tensor) -> TensorObject:
        state = inputs.state
        if state.outermost.transform is None or plain.layout is not torch.strided:
            state.vm.unsupported(INSIDE_TRANSFORM)
        state.refresh()
        return inputs.add_sized(source, tensor, plain, state.fakes.of_transformed(plain), None, True)


INSIDE_TRANSFORM = breaks.UnsupportedValue("a tensor inside a function transform (torch.func)")
