"""The part of `backward()` that stores gradients once they are computed."""

from __future__ import annotations

from typing import Any

import torch


def accumulate(leaves: tuple[Any, ...], gradients: tuple[Any, ...], layouts: tuple[Any, ...], create_graph: bool) -> None:
    """Add gradients to the `.grad` of leaves (torch/csrc/autograd/functions/accumulate_grad.h).

    A leaf without a `.grad` gets the gradient itself, or a copy with this layout; None means that no copy is needed.
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


def accumulate_with_hooks(leaf: Any, gradient: Any, before: tuple[Any, ...], layout: Any, after: tuple[Any, ...]) -> None:
    """Call the hooks on the gradient of a leaf, add it to the `.grad`, and call the hooks that run after that.

    A hook may keep the gradient, so that the `.grad` is always a copy.
    """
    with torch.no_grad():
        for hook in before:
            changed = hook(gradient)
            if changed is not None:
                if not isinstance(changed, torch.Tensor):
                    raise TypeError("a hook on a gradient has returned what is no tensor")
                if changed.shape != gradient.shape or changed.dtype != gradient.dtype or changed.device != gradient.device:
                    raise RuntimeError("a hook has changed the size or the type of a gradient")
                gradient = changed
        accumulate((leaf,), (gradient,), (layout,), False)
        for hook in after:
            if hook(leaf) is not None:
                raise RuntimeError("post accumulate grad hooks should return None.")


def call_hook(hook: Any, *gradients: Any) -> Any:
    """Call a hook on a tensor that isn't a leaf, as autograd does in torch.autograd.backward()."""
    with torch.no_grad():
        return hook(*gradients)


def call_hook_in_method(hook: Any, *gradients: Any) -> Any:
    """Call a hook on a tensor that isn't a leaf, as autograd does in a tensor's method backward()."""
    return call_hook(hook, *gradients)


def retain(tensor: Any, gradient: Any) -> None:
    """Keep the gradient of a tensor that isn't a leaf (torch/csrc/autograd/variable.cpp, VariableHooks::retain_grad)."""
    with torch.no_grad():
        known = tensor.grad
        tensor.grad = gradient.clone(memory_format=torch.contiguous_format) if known is None else known + gradient
