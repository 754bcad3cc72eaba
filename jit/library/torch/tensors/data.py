"""`tensor.data = value`: the tensor becomes another one, with the memory of `value`; one that requires a gradient keeps its shape.

From then on, the graph uses a detached `value` for the tensor; a tensor from outside gets that memory after the graph.
"""

from __future__ import annotations

from typing import NoReturn

import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.objects.core.object import Object
from framejit.objects.core.registry import sets
from framejit.objects.tensors.tensorobject import TensorObject, read_is_leaf
from framejit.objects.tensors.torchcall import enter
from framejit.torch_state.torch_classes import is_plain


def break_graph(vm: TorchVM, why: str) -> NoReturn:
    vm.unsupported(breaks.MutatedInputUnsupported(f".data of a tensor{why}"))


@sets(torch.Tensor.data)
def write_data(vm: TorchVM, self: TensorObject, value: Object | None) -> None:
    """Gradients of results computed from the tensor before can no longer be asked for; no output of the graph may lead to the tensor as it is now."""
    if value is self:  # as in Module.to() that converts nothing
        return
    graph = vm.graph
    if not isinstance(value, TensorObject) or not is_plain(self.cls) or not is_plain(value.cls):
        break_graph(vm, " to what is no plain tensor")
    if graph.is_inner() or graph.function_modes.asks_modes():
        break_graph(vm, " inside an operator that takes functions, or under a function mode")
    mine, other = self.look(vm), value.look(vm)
    if mine.is_inference() or other.is_inference() or mine.layout is not torch.strided or other.layout is not torch.strided:
        break_graph(vm, " that was made in an inference mode, or is sparse")
    if (mine.dtype, mine.device) != (other.dtype, other.device) or (mine.requires_grad and mine.shape != other.shape):
        break_graph(vm, " to one of another dtype or device, or of another shape if it requires a gradient")
    if not read_is_leaf(vm, self).constant(vm):
        break_graph(vm, " that autograd has computed")
    if any(storage.is_of(vm, self) for storage in graph.storages):
        break_graph(vm, " whose storage was asked for")
    memory = enter(vm, torch.Tensor.detach, [value])
    assert isinstance(memory, TensorObject)
    state = memory
    if mine.requires_grad:
        place = vm.place()
        fresh = enter(vm, torch.Tensor.requires_grad_, [enter(vm, torch.Tensor.detach, [memory])])
        assert isinstance(fresh, TensorObject)
        state = fresh
        graph.moved.append((fresh.node, place, ".data"))
        vm.trail.learned(graph, graph.moved.pop)
    graph.fakes.move(self, state.node)
    if self.source is not None:
        vm.trail.set(self, "data", memory)
        vm.effects.mutated(self)
