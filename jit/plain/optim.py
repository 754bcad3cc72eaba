"""The code around the steps of torch's optimizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def step(function: Callable[..., Any], optimizer: Any, *args: Any, **kwargs: Any) -> Any:
    """torch.optim.optimizer._use_grad_for_differentiable, without the graph breaks that it requests from torch's own tracer."""
    with torch.set_grad_enabled(optimizer.defaults["differentiable"]):
        return function(optimizer, *args, **kwargs)


def plain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function without the code that torch has wrapped around it."""
    return function(*args, **kwargs)


def zero_grad(function: Callable[..., Any], optimizer: Any, set_to_none: bool = True) -> None:
    """torch.optim.Optimizer.zero_grad: if all gradients are set to None, it doesn't matter whether there are any, so that needs no guard."""
    if not set_to_none:
        function(optimizer, set_to_none)
        return
    if not hasattr(optimizer, "_zero_grad_profile_name"):
        optimizer._patch_step_function()
    with torch.autograd.profiler.record_function(optimizer._zero_grad_profile_name):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None


def zero_grad_of_module(function: Callable[..., Any], module: Any, set_to_none: bool = True) -> None:
    """torch.nn.Module.zero_grad. With `set_to_none=False`, and for replicas of DataParallel, it calls `function`, the real one."""
    if not set_to_none or getattr(module, "_is_replica", False):
        function(module, set_to_none)
        return
    for parameter in module.parameters():
        parameter.grad = None


def one_group(key: Any, lists: list[list[Any]], with_indices: bool = False) -> dict[Any, tuple[list[list[Any]], list[int]]]:
    """torch._C._group_tensors_by_device_and_dtype, if all tensors have the device and the dtype of the key."""
    return {key: ([list(items) for items in lists], list(range(len(lists[0]))) if with_indices else [])}


def if_compared_with_zero(setting: Any) -> tuple[Any]:
    """The comparisons that must hold for a symbolic setting of an optimizer that its arithmetic compares with 0."""
    return (setting > 0,)


def if_complement_is_a_weight(setting: Any) -> tuple[Any, Any]:
    """The comparisons that must hold for a symbolic setting x, if torch.lerp gets 1 - x as a weight, which Inductor compares with 0.5 and -0.5."""
    return 1 - setting < 0.5, 1 - setting > -0.5


def if_both_are_weights(setting: Any) -> tuple[Any, Any, Any]:
    """The comparisons that must hold for a symbolic setting x, if torch.lerp gets both x and 1 - x as weights, which Inductor compares with 0.5 and -0.5."""
    return 1 - setting < 0.5, 1 - setting > -0.5, setting >= 0.5
