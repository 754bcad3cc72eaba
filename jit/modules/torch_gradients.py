"""Gradients asked for, and hooks of modules set up, inside compiled code: autograd does that natively, between two graphs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.hooks import BackwardHook

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.objects import abstract
from framejit.objects.registry import library, models
from framejit.objects.tensorobject import TensorObject

if TYPE_CHECKING:
    from framejit.objects.object import VM, Object


def tensors_in(vm: VM, value: Object | None) -> list[TensorObject]:
    """A tensor, or those of a tuple or list of tensors."""
    if value is None:
        return []
    value = vm.observe(value)
    values = [vm.observe(item) for item in abstract.iterate(vm, value)] if value.cls in (tuple, list) else [value]
    return [item for item in values if isinstance(item, TensorObject)]


def asks_for_gradients(name: str, function: Callable[..., Any]) -> Callable[..., Object]:
    """The model of a function that runs a backward pass, for tensors named `inputs` or for all leaves."""
    signature = inspect.signature(function)

    def stop(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
        given = signature.bind(*args, **kwargs).arguments
        node = vm.graph.autograd_node
        if node is not None:
            for wanted in tensors_in(vm, given.get("inputs")):
                node.asked_about(wanted, f"the gradient of a tensor for {name}")
            node.differentiated_twice = "create_graph" in given and abstract.truth(vm, vm.observe(given["create_graph"]))
        vm.unsupported(breaks.UnsupportedOperation(name))

    return stop


models(torch.autograd.grad)(asks_for_gradients("torch.autograd.grad", torch.autograd.grad))
models(torch.autograd.backward)(asks_for_gradients("torch.autograd.backward", torch.autograd.backward))
models(torch.Tensor.backward)(asks_for_gradients("backward() of a tensor", torch.Tensor.backward))


@library
def set_up_backward_hook(vm: TorchVM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """torch puts a node of autograd's around what goes into a module or comes out of it, and hooks on that. None: it won't, or it's not that."""
    real = function.value
    if real is BackwardHook.setup_input_hook or real is BackwardHook.setup_output_hook:
        if vm.graph.modes.current.grad and any(tensor.look(vm).requires_grad for tensor in tensors_in(vm, args[1])):
            vm.unsupported(breaks.HookUnsupported("a full backward hook of a module"))
    return None
