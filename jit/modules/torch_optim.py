"""torch.optim: steps of optimizers run as written; `zero_grad` is traced."""

from __future__ import annotations

import inspect
from types import CodeType

import torch

from framejit import breaks
from framejit.objects import abstract
from framejit.objects.object import VM, Object
from framejit.objects.registry import models, runs_as_written

STEP = next(constant for constant in torch.optim.Optimizer.profile_hook_step.__code__.co_consts if isinstance(constant, CodeType))
"""The code that torch puts around the `step` of each class of optimizers."""
runs_as_written(STEP, breaks.OptimizerStep("an optimizer of torch.optim"))


@models(torch.optim.Optimizer.zero_grad)
def zero_grad(vm: VM, *args: Object, **kwargs: Object) -> Object:
    """torch marks it as not to be compiled by its own tracer."""
    return abstract.call(vm, vm.from_real(inspect.unwrap(torch.optim.Optimizer.zero_grad)), list(args), kwargs)
