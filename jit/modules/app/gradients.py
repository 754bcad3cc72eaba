"""What `backward()` does with gradients, when they are computed."""

from __future__ import annotations

from typing import Any

import torch


def accumulate(leaves: tuple[Any, ...], gradients: tuple[Any, ...], layouts: tuple[Any, ...], create_graph: bool) -> None:
    """Add gradients to the `.grad` of leaves (torch/csrc/autograd/functions/accumulate_grad.h).

    A leaf without a `.grad` gets the gradient itself, or a copy of this layout; None where no copy is needed.
    """
    with torch.set_grad_enabled(create_graph):
        for index in range(len(leaves)):
            leaf, gradient, layout = leaves[index], gradients[index], layouts[index]
            if gradient is None:
                continue
            known = leaf.grad
            if known is None:
                leaf.grad = gradient if layout is None else torch.empty_like(leaf, requires_grad=False, memory_format=layout).copy_(gradient)
            elif create_graph:
                leaf.grad = known + gradient
            else:
                known.add_(gradient)
