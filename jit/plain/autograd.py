"""torch.autograd.Function.apply in parts: its forward, and its result if nothing needs a gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch._functorch.autograd_function import VmapInfo
from torch.autograd.function import _SingleLevelFunction

DEFAULT_SETUP = _SingleLevelFunction.setup_context


class Context:
    """The `ctx` of a forward, and of its backward. Attributes have torch's names, as the program's own attributes are stored next to them."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.to_save: tuple[Any, ...] = ()
        self.to_save_for_forward: tuple[Any, ...] = ()
        self.dirty_tensors: tuple[Any, ...] = ()
        self.non_differentiable: tuple[Any, ...] = ()
        self.materialize_grads = True

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self.to_save

    def save_for_backward(self, *tensors: Any) -> None:
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        self.to_save_for_forward = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize_grads = value


def forward(cls: Any, needs_input_grad: tuple[bool, ...], args: tuple[Any, ...]) -> tuple[Context, Any]:
    """The `ctx` of the forward, and its result."""
    ctx = Context(needs_input_grad)
    with torch.no_grad():
        if cls.setup_context is DEFAULT_SETUP:
            return ctx, cls.forward(ctx, *args)
        result = cls.forward(*args)
        cls.setup_context(ctx, args, result)
        return ctx, result


def set_up(cls: Any, needs_input_grad: tuple[bool, ...], args: tuple[Any, ...], result: Any) -> Context:
    """The `ctx` of a Function with this result of its forward."""
    ctx = Context(needs_input_grad)
    with torch.no_grad():
        cls.setup_context(ctx, args, result)
    return ctx


def sets_up_context(cls: Any) -> bool:
    """Return whether the Function's forward takes no `ctx`."""
    return cls.setup_context is not DEFAULT_SETUP


def is_mapped_by_torch(cls: Any) -> bool:
    """Return whether torch.vmap maps the Function's forward and backward."""
    return cls.generate_vmap_rule and cls.vmap is torch.autograd.Function.vmap


def has_rule(cls: Any) -> bool:
    """Return whether the Function has a `vmap` method of its own."""
    return not cls.generate_vmap_rule and cls.vmap is not torch.autograd.Function.vmap


def call_rule(function: Any, args: tuple[Any, ...], in_dims: tuple[Any, ...], size: int) -> tuple[list[Any], Any]:
    """Call `function(args)` for a number of items. It gives a list of tensors, their dimensions and a third value; the result is the list, for one item, and
    the third value."""
    raise NotImplementedError  # library/torch/transforms/func_rules.py has the model


def mapped(cls: Any, size: int, randomness: str, in_dims: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
    """The result, for one item of a torch.vmap, of a Function with a `vmap` method."""

    def run(args: list[Any]) -> Any:
        outputs, out_dims = cls.vmap(VmapInfo(size, randomness), in_dims, *args)
        if type(outputs) is tuple:
            return list(outputs), list(out_dims) if type(out_dims) is tuple else [out_dims] * len(outputs), True
        return [outputs], [out_dims], False

    results, several = call_rule(run, args, in_dims, size)
    return tuple(results) if several else results[0]


def backward(cls: Any, ctx: Context, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    """The results of the backward, for each argument of the forward."""
    result = cls.backward(ctx, *gradients)
    return result if type(result) is tuple else (result,)


def has_jvp(cls: Any) -> bool:
    """Return whether the Function has a `jvp`, which computes tangents."""
    return cls.jvp is not torch.autograd.Function.jvp


def forward_context(ctx: Context) -> Context:
    """The `ctx` for the Function's `jvp`."""
    result = Context(ctx.needs_input_grad)
    vars(result).update(vars(ctx))
    result.to_save = ctx.to_save_for_forward
    return result


def jvp(cls: Any, ctx: Context, tangents: tuple[Any, ...]) -> tuple[Any, ...]:
    """The results of the `jvp`, for each result of the forward."""
    result = cls.jvp(ctx, *tangents)
    return result if type(result) is tuple else (result,)


def without_gradient(ctx: Context, result: Any, args: tuple[Any, ...]) -> Any:
    """The result of a Function if nothing needs a gradient."""
    if type(result) is tuple:
        return tuple([own(ctx, item, args) for item in result])
    return own(ctx, result, args)


def own(ctx: Context, result: Any, args: tuple[Any, ...]) -> Any:
    """An input that is returned unchanged becomes a view of itself, and one that requires a gradient is detached, whether it was changed or not
    (torch/csrc/autograd/custom_function.cpp: _wrap_outputs)."""
    for dirty in ctx.dirty_tensors:
        if result is dirty:
            return result.detach() if result.requires_grad else result
    for arg in args:
        if result is arg and isinstance(arg, torch.Tensor):
            return result.detach() if result.requires_grad else result.view_as(result)
    return result
