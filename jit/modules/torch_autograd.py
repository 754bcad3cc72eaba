"""torch.autograd.Function: inlined where no gradient is needed, else one node, after a trial that its forward can be traced."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch

from framejit import breaks, classes
from framejit.graph.builder import TorchVM
from framejit.modules.app import autograd as plain
from framejit.objects.object import Object
from framejit.objects.registry import models
from framejit.objects.tensorobject import TensorObject
from framejit.objects.torchcall import enter


@functools.lru_cache(maxsize=1024)
def applier(cls: type[torch.autograd.Function]) -> Callable[..., Any]:
    """`cls.apply` as a function that a graph can name."""

    def apply(*args: Any) -> Any:
        return cls.apply(*args)

    apply.__name__ = apply.__qualname__ = classes.name(cls)
    return apply


APPLY = inspect.getattr_static(torch.autograd.Function, "apply")
"""A classmethod in Python or, from torch 2.14 on, a class method descriptor in C."""


@models(getattr(APPLY, "__func__", APPLY))
def function_apply(vm: TorchVM, cls: Object, *args: Object) -> Object:
    """The trial trace of forward guards what it depends on and breaks where it can't be part of a graph; it leaves nothing else."""
    real = vm.observe(cls).constant(vm)
    values = [vm.observe(arg) for arg in args]
    enabled = vm.graph.modes.current.grad and not vm.graph.modes.current.inference
    needs_grad = tuple([isinstance(value, TensorObject) and value.look(vm).requires_grad for value in values])
    trial = [vm.const(real), vm.const(needs_grad), *values]
    if not (enabled and any(needs_grad)):
        return vm.call_app(plain.apply, trial)
    mark, known = vm.trail.mark(), vm.guards.count()
    vm.call_app(plain.apply, trial)
    changed, guards = vm.effects.has_changed_since(mark), vm.guards.since(known)
    vm.trail.undo_to(mark)
    if changed:
        vm.unsupported(breaks.UnsupportedOperation(f"the autograd.Function {real.__name__}, whose forward has side effects"))
    vm.guards.adopt(guards)
    return enter(vm, applier(real), values)
