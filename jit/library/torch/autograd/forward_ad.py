"""torch.autograd.forward_ad in a graph: a tensor from outside may have a tangent, which its fake doesn't show."""

from __future__ import annotations

import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.tupleobject import TupleObject


@models(torch._VF._unpack_dual)
def unpack_dual(vm: TorchVM, tensor: Object, level: Object) -> Object:
    """A tangent made by the graph's own `make_dual` is known while tracing; if there is none, the program asks natively."""
    made = enter(vm, torch._VF._unpack_dual, [tensor, level])
    if not isinstance(made, TupleObject) or not all(isinstance(vm.observe(item), TensorObject) for item in made.items(vm)):
        vm.unsupported(breaks.UnsupportedOperation("unpack_dual() of what was computed before"))
    return made


@models(torch._VF._make_dual)
def make_dual(vm: TorchVM, tensor: Object, tangent: Object, level: Object) -> Object:
    """Breaks if a graph's backward is made as a whole, since no tangent leaves such a graph."""
    if vm.graph.autograd_node is not None:
        vm.unsupported(breaks.NotInsideAutogradNode("make_dual() of a tensor"))
    return enter(vm, torch._VF._make_dual, [tensor, tangent, level])
