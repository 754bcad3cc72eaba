"""The operators by which a graph puts hooks on the gradients of its tensors, and takes them off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from framejit.graph.custom_gradient import laid_out


def listen_(tensor: torch.Tensor, hook: Callable[..., Any], operands: tuple[Any, ...], position: int | None) -> RemovableHandle:
    """Have a graph compute what becomes of a tensor's gradient. `position`: before which of its operands it takes the gradient; None: it doesn't.

    Its name says to the graph that it changes the tensor: what autograd knows of it.
    """

    def changed(gradient: torch.Tensor) -> torch.Tensor | None:
        given = operands if position is None else (*operands[:position], laid_out(gradient), *operands[position:])
        return next(iter(hook(*given)), None)

    return tensor.register_hook(changed)


def stop_listening_(handle: RemovableHandle) -> None:
    """Take a hook off."""
    handle.remove()


def grad_without_hooks(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> tuple[torch.Tensor | None, ...]:
    """`torch.autograd.grad`, which calls no hooks of the inputs: the trace has seen what they do."""
    taken_off = [(hooks, dict(hooks)) for tensor in inputs if (hooks := tensor._backward_hooks)]
    for hooks, _ in taken_off:
        hooks.clear()
    try:
        return torch.autograd.grad(outputs, inputs, *args, **kwargs)
    finally:
        for hooks, items in taken_off:
            hooks.update(items)
