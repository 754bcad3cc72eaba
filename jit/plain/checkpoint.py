"""A checkpointed function of whose results autograd keeps no record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def without_gradients(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Call the function as CheckpointFunction.forward (torch/utils/checkpoint.py) does."""
    with torch.no_grad():
        return function(*args)
