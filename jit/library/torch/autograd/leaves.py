"""`requires_grad` of tensors, set by the program: a generator's step freezes the discriminator, and the discriminator's step thaws it.

A tensor from outside then becomes another node of the graph, which shares its memory, so that results computed from it have another autograd record. The tensor
itself is changed after the graph, if its setting differs.
"""

from __future__ import annotations

from typing import NoReturn

import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models, sets
from framejit.objects.tensors.tensorobject import TensorObject, read_is_leaf
from framejit.objects.tensors.torchcall import enter
from framejit.torch_state.torch_classes import is_plain


def break_graph(vm: TorchVM, why: str = "") -> NoReturn:
    vm.unsupported(breaks.MutatedInputUnsupported(f"requires_grad of a tensor from outside{why}"))


@sets(torch.Tensor.requires_grad)
def write_requires_grad(vm: TorchVM, self: TensorObject, value: Object | None) -> None:
    if value is None:
        vm.unsupported(breaks.OperatorRaises("deleting .requires_grad of a tensor"))
    set_requires_grad(vm, self, bool(value.constant(vm)))


@models(torch.Tensor.requires_grad_)
def tensor_requires_grad_(vm: TorchVM, self: TensorObject, requires_grad: Object | None = None) -> Object:
    set_requires_grad(vm, self, requires_grad is None or bool(vm.observe(requires_grad).constant(vm)))
    return self


def set_requires_grad(vm: TorchVM, self: TensorObject, enabled: bool) -> None:
    vm.graph.reject_transformed("requires_grad_() of a tensor")
    vm.graph.check_record(self)
    if self.look(vm).requires_grad == enabled:
        return
    if self.source is None:
        if vm.graph.is_inner() and not vm.graph.body.makes(self.node):
            break_graph(vm, " the function that an operator takes")
        enter(vm, torch.Tensor.requires_grad_, [self, vm.const(enabled)])
        return
    check(vm, self)
    graph = vm.graph
    others = [node for node in graph.twins.get(self, ()) if node is not self.node]
    if len(others) == 1:  # as it was before its last change
        graph.fakes.move(self, others[0])
    else:
        turned_into_new(vm, self, enabled)
    vm.trail.set(self, "requires_grad", enabled)
    vm.effects.mutated(self)


def check(vm: TorchVM, self: TensorObject) -> None:
    """Stop the trace if a tensor from outside can't become another node, or if torch raises."""
    fake = self.look(vm)
    if vm.graph.is_inner() or vm.graph.function_modes.asks_modes():
        break_graph(vm, " inside an operator that takes functions, or under a function mode")
    if not is_plain(self.cls) or fake.is_inference() or not (fake.is_floating_point() or fake.is_complex()):
        break_graph(vm, " that is no plain one of floats")
    if not read_is_leaf(vm, self).constant(vm):
        break_graph(vm, " that autograd has computed")


def turned_into_new(vm: TorchVM, self: TensorObject, enabled: bool) -> None:
    """Let the tensor continue as a new node with the same memory."""
    graph, place = vm.graph, vm.place()
    twin = enter(vm, torch.Tensor.detach, [self])
    assert isinstance(twin, TensorObject)
    if enabled:
        enter(vm, torch.Tensor.requires_grad_, [twin])
        graph.moved.append((twin.node, place, "requires_grad"))
        vm.trail.learned(graph, graph.moved.pop)
    vm.trail.set(graph, "twins", graph.twins | {self: (self.node, twin.node)})
    graph.fakes.move(self, twin.node)
