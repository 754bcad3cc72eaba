"""torch._assert_async under a handler of the program: a condition on a CPU is checked as in `if not condition: raise`, so that the handler sees the error."""

from __future__ import annotations

import torch

from framejit.graph.builder import TorchVM
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.constobject import NONE


@models(torch._assert_async)
def assert_async(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
    """The operator itself is the node where no handler sees the error, and on other devices, which it doesn't wait for."""
    condition = vm.observe(args[0]) if args else None
    if isinstance(condition, TensorObject) and vm.has_handler() and condition.look(vm).device.type == "cpu" and condition.check_truth(vm, True):
        return NONE
    return enter(vm, torch._assert_async, args, kwargs)
