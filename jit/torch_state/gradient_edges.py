"""The edges of autograd's record along which gradients of tensors go."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.graph import GradientEdge, get_gradient_edge


def edge_of(value: Any) -> GradientEdge | None:
    """The edge along which the gradient of a tensor goes; None if there is none, as for a view of a leaf that was made under `no_grad`."""
    if not isinstance(value, torch.Tensor) or not value.requires_grad:
        return None
    if value.grad_fn is None:
        with torch.enable_grad():
            following, _ = value.view_as(value).grad_fn.next_functions[0]  # type: ignore[union-attr]
        if following is None:
            return None
    return get_gradient_edge(value)
