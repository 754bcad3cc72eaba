"""What stands around the steps of torch's optimizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def step(function: Callable[..., Any], optimizer: Any, *args: Any, **kwargs: Any) -> Any:
    """torch.optim.optimizer._use_grad_for_differentiable, without the graph breaks that it asks torch's own tracer for."""
    with torch.set_grad_enabled(optimizer.defaults["differentiable"]):
        return function(optimizer, *args, **kwargs)


def one_group(key: Any, lists: list[list[Any]], with_indices: bool = False) -> dict[Any, tuple[list[list[Any]], list[int]]]:
    """torch._C._group_tensors_by_device_and_dtype, where all tensors have the device and the dtype of the key."""
    return {key: ([list(items) for items in lists], list(range(len(lists[0]))) if with_indices else [])}
