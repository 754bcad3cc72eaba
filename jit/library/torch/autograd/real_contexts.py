"""The ctx of an autograd.Function that runs uncompiled, in its forward: which gradients are needed is guarded, and what it saves is stored after the graph.

Autograd takes what was stored once the forward has returned, so that the tensors are those of the graph, or of the call.
"""

from __future__ import annotations

import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.guards.source import CAttr
from framejit.objects.core.latercall import LaterCall
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models, sets
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.types.constobject import ConstObject
from framejit.objects.types.tupleobject import TupleObject

CONTEXT = torch._C._FunctionBase
NATIVE = breaks.UnsupportedOperation("saving anything but a tuple of tensors in the ctx of an autograd.Function that runs uncompiled")


@models(CONTEXT.needs_input_grad)
def needs_input_grad(vm: TorchVM, ctx: Object) -> Object:
    """The bools that say which inputs need a gradient. They are guarded, and never change."""
    if ctx.source is None:
        vm.unsupported(breaks.UnsupportedValue("the ctx of an autograd.Function that wasn't there when the call began"))
    return vm.wrap(CONTEXT.needs_input_grad.__get__(ctx.value), ctx.source.child(CAttr, "needs_input_grad"))  # type: ignore[attr-defined]


@sets(CONTEXT.to_save)
def set_to_save(vm: TorchVM, ctx: Object, value: Object | None) -> None:
    store(vm, ctx, value, CONTEXT.to_save)


@sets(CONTEXT.non_differentiable)
def set_non_differentiable(vm: TorchVM, ctx: Object, value: Object | None) -> None:
    store(vm, ctx, value, CONTEXT.non_differentiable)


def store(vm: TorchVM, ctx: Object, value: Object | None, field: object) -> None:
    """Store a tuple of tensors after the graph. What else there is to store, C code takes or refuses by itself."""
    stored = None if value is None else vm.observe(value)
    if vm.graph.body is not vm.graph.outermost or not isinstance(stored, TupleObject) or stored.cls is not tuple:
        vm.unsupported(NATIVE)
    if not all(isinstance(item, TensorObject) or (isinstance(item, ConstObject) and item.cls is type(None)) for item in map(vm.observe, stored.items(vm))):
        vm.unsupported(NATIVE)
    vm.effects.in_order(LaterCall(field.__set__, (ctx, stored)))  # type: ignore[attr-defined]
