"""Lazy modules, whose first call makes their parameters from the shape of its input. That is done for real, ahead of the trace, which is then restarted."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.fake import is_declared
from framejit.graph.prune import has_effect
from framejit.graph.statistics import statistics_of
from framejit.objects.core import abstract
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.program import classes

HOOK = LazyModuleMixin._infer_parameters
METHODS = ("initialize_parameters", "reset_parameters", "has_uninitialized_params", "_infer_parameters")
LAZY = {
    cls: tuple(getattr(cls, name, None) for name in METHODS)
    for cls in vars(nn).values() if isinstance(cls, type) and issubclass(cls, LazyModuleMixin)
}  # fmt: skip
"""torch's lazy modules, and the methods by which they make parameters."""


@models(HOOK)
def infer_parameters(vm: TorchVM, self: Object, module: Object, args: Object, kwargs: Object | None = None) -> Object:
    """The hook that runs before the first `forward`: it materialises the parameters, and removes itself."""
    lazy = vm.observe(module)
    reason = breaks.LazyModuleCall(f"a {classes.qualname(lazy.cls)}")
    shapes = [shape_given(vm, arg) for arg in abstract.iterate(vm, args)]
    named = kwargs is not None and abstract.truth(vm, vm.observe(kwargs))
    if named or None in shapes or not is_as_torch_made_it(lazy) or has_changed_anything(vm):
        vm.unsupported(reason)
    real: Any = lazy.value
    vm.ahead(lambda: HOOK(real, real, tuple([torch.empty(shape, device="meta") for shape in shapes])), reason)


def shape_given(vm: TorchVM, arg: Object) -> tuple[int, ...] | None:
    """The shape of a tensor in this call; None if it depends on data of tensors, and for other values."""
    arg = vm.observe(arg)
    if not isinstance(arg, TensorObject):
        return None
    sizes = [size.node.hint if isinstance(size, torch.SymInt) else size for size in arg.look(vm).shape]
    return tuple(sizes) if all(type(size) is int for size in sizes) else None


def is_as_torch_made_it(lazy: Object) -> bool:
    """Return whether a module from outside makes its parameters by torch's code alone."""
    real = lazy.value
    methods = LAZY.get(type(real))
    return lazy.source is not None and methods is not None and methods == tuple(getattr(type(real), name, None) for name in METHODS) and not (
        vars(real).keys() & set(METHODS)
    )


def has_changed_anything(vm: TorchVM) -> bool:
    """Return whether the call has already changed something that might affect new parameters: values, modes, the state of random numbers."""
    graph = vm.graph
    if graph.is_inner() or graph.modes.current != graph.modes.initial or graph.function_modes.stack or graph.function_modes.initial:
        return True
    if not all(isinstance(changed, TensorObject) for changed in vm.effects.mutated_since(0)):
        return True
    graph.refresh()
    graph.fakes.stale = True  # operators that change fakes in place run again here
    nodes = [node for node in graph.outermost.fx.nodes if node in graph.outermost.notes and statistics_of(node) is None]  # no parameter is made of those
    return any(is_declared(node.target) or has_effect(node, graph.fakes.running) for node in nodes)
