"""Kinds of tensors from outside that can't be inputs of a graph. Where such tensors can be in the graph, they are like plain ones to the trace."""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framejit import breaks
from framejit.breaks import Break
from framejit.objects.tensors.tensorkind import TensorKind, tensor_kind
from framejit.program import classes
from framejit.torch_state.torch_classes import overrides_operators


@tensor_kind(10)
class FakeTensors(TensorKind):
    """Fake tensors that aren't the trace's own."""

    name = "fake"
    is_in_graphs = False

    def holds_class(self, cls: type) -> bool:
        return classes.is_subtype(cls, FakeTensor)

    def refusal(self, tensor: torch.Tensor) -> Break | None:
        return breaks.UnsupportedValue("a fake tensor (of another tracer)")


@tensor_kind(60)
class OverridingTensors(TensorKind):
    """Tensors whose class has a `__torch_dispatch__`, and that don't say what they consist of."""

    name = "overriding"

    def holds_class(self, cls: type) -> bool:
        return overrides_operators(cls) and not classes.is_subtype(cls, FakeTensor)  # in a graph, those are its plain tensors

    def refusal(self, tensor: torch.Tensor) -> Break | None:
        return breaks.TensorSubclass(classes.qualname(type(tensor)))


@tensor_kind(70)
class UninitializedTensors(TensorKind):
    """Parameters and buffers of lazy modules that haven't run yet."""

    name = "uninitialized"
    is_in_graphs = False

    def holds_class(self, cls: type) -> bool:
        return classes.is_subtype(cls, torch.nn.parameter.UninitializedTensorMixin)

    def refusal(self, tensor: torch.Tensor) -> Break | None:
        return breaks.UnsupportedValue(f"an uninitialized {classes.qualname(type(tensor))}")


@tensor_kind(110)
class TensorsOfOtherLayouts(TensorKind):
    """Tensors that are neither dense nor sparse (MKL-DNN), and nested tensors of the layout `torch.strided`."""

    name = "of another layout"
    is_in_graphs = False

    def holds(self, tensor: torch.Tensor) -> bool:
        return tensor.layout is not torch.strided or tensor.is_nested

    def refusal(self, tensor: torch.Tensor) -> Break | None:
        return breaks.UnsupportedValue(f"a tensor of layout {tensor.layout}")


@tensor_kind(120)
class QuantizedTensors(TensorKind):
    """Quantized tensors."""

    name = "quantized"
    is_in_graphs = False

    def holds(self, tensor: torch.Tensor) -> bool:
        return tensor.is_quantized

    def refusal(self, tensor: torch.Tensor) -> Break | None:
        return breaks.UnsupportedValue("a quantized tensor")
