"""torch.autograd.Function.apply, as it behaves where nothing needs a gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import _SingleLevelFunction

DEFAULT_SETUP = _SingleLevelFunction.setup_context


class Context:
    """The `ctx` of a forward."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.saved_tensors: tuple[Any, ...] = ()
        self.dirty: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        pass

    def mark_dirty(self, *tensors: Any) -> None:
        self.dirty = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        pass

    def set_materialize_grads(self, value: bool) -> None:
        pass


def apply(cls: Any, needs_input_grad: tuple[bool, ...], *args: Any) -> Any:
    ctx = Context(needs_input_grad)
    with torch.no_grad():
        if cls.setup_context is DEFAULT_SETUP:
            result = cls.forward(ctx, *args)
        else:
            result = cls.forward(*args)
            cls.setup_context(ctx, args, result)
    if type(result) is tuple:
        return tuple([own(ctx, item, args) for item in result])
    return own(ctx, result, args)


def own(ctx: Context, result: Any, args: tuple[Any, ...]) -> Any:
    """An input that comes back unchanged comes back as a view of itself (torch/csrc/autograd/custom_function.cpp: _wrap_outputs)."""
    for dirty in ctx.dirty:
        if result is dirty:
            return result
    for arg in args:
        if result is arg and isinstance(arg, torch.Tensor):
            return result.view_as(result)
    return result
