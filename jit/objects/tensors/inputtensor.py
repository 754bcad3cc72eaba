"""Tensors from outside: each becomes an input of the graph, and what its class holds apart from data is guarded."""

from __future__ import annotations

import torch

from framejit import breaks
from framejit.guards.source import Source
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import wraps
from framejit.objects.tensors.tensorkind import kind_of_class
from framejit.program import classes
from framejit.torch_state.torch_classes import is_plain


@wraps(torch.Tensor, shared=True)
def wrap_tensor(vm: VM, value: torch.Tensor, source: Source) -> Object:
    """Wrap a tensor from outside: it becomes an input of the graph."""
    if not is_plain(type(value)):
        for name in ("__torch_function__", "__torch_dispatch__"):
            vm.raw_type_lookup(type(value), name)  # guarded
        if vm.raw_type_lookup(type(value), "__getattribute__") is not object.__getattribute__:
            vm.unsupported(breaks.TensorSubclass(f"{classes.qualname(type(value))}, which has a __getattribute__ of its own"))
    made = vm.graph.input(source, value)
    kind_of_class(type(value)).guard_contents(vm, made)
    return made
