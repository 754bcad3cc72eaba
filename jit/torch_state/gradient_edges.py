"""Tensors that require a gradient, and the edges of autograd's record along which it goes."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.graph import GradientEdge, get_gradient_edge


def requires_grad(value: Any) -> bool:
    """Return whether a value is a tensor that requires a gradient."""
    return isinstance(value, torch.Tensor) and value.requires_grad


def edge_of(value: Any) -> GradientEdge | None:
    """The edge along which the gradient of a tensor goes; None if there is none, as for a view of a leaf that was made under `no_grad`."""
    if not requires_grad(value):
        return None
    with torch.inference_mode(False), torch.enable_grad():
        if value.grad_fn is None:
            record = value.view_as(value).grad_fn  # None for a tensor of the inference mode
            if record is None or record.next_functions[0][0] is None:
                return None
        return get_gradient_edge(value)
