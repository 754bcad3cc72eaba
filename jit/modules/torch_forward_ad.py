"""torch.autograd.forward_ad in a graph: a tensor from outside may have a tangent, of which its fake knows nothing."""

from __future__ import annotations

import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.objects.object import Object
from framejit.objects.registry import models
from framejit.objects.tensorobject import TensorObject
from framejit.objects.torchcall import enter
from framejit.objects.tupleobject import TupleObject


@models(torch._VF._unpack_dual)
def unpack_dual(vm: TorchVM, tensor: Object, level: Object) -> Object:
    """A tangent that comes of the graph's own `make_dual` is known while tracing; where there is none, the program asks natively."""
    made = enter(vm, torch._VF._unpack_dual, [tensor, level])
    if not isinstance(made, TupleObject) or not all(isinstance(vm.observe(item), TensorObject) for item in made.items(vm)):
        vm.unsupported(breaks.UnsupportedOperation("unpack_dual() of what was computed before"))
    return made


@models(torch._VF._make_dual)
def make_dual(vm: TorchVM, tensor: Object, tangent: Object, level: Object) -> Object:
    """Where a graph's backward is made as a whole, no tangent leaves the graph."""
    if vm.graph.autograd_node is not None:
        vm.unsupported(breaks.NotInsideAutogradNode("make_dual() of a tensor"))
    return enter(vm, torch._VF._make_dual, [tensor, tangent, level])
