"""Operators that run torch.func's transforms on an inner graph. They close all levels that they open, whatever happens inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._functorch.eager_transforms import _jvp_with_argnums, _vjp_with_argnums, grad_and_value_impl

Tensors = tuple[torch.Tensor, ...]
Which = tuple[int, ...] | None
"""Indices of the arguments that a transform applies to; None: all."""


def vmap(inner: fx.GraphModule, dims: tuple[int, ...], out_dims: tuple[Any, ...], randomness: str, args: Tensors, free: tuple[Any, ...]) -> Tensors:
    """The outputs of a graph for each item of `args` along these dimensions."""
    result: Tensors = torch.vmap(lambda *batched: inner.forward(*batched, *free), dims, out_dims, randomness)(*args)
    return result


def in_parts(inner: fx.GraphModule, count: int, free: tuple[Any, ...]) -> Callable[..., tuple[Tensors, Tensors]]:
    """A function that returns the first `count` outputs of a graph, and the others, which a transform only passes on."""

    def run(*args: torch.Tensor) -> tuple[Tensors, Tensors]:
        outputs = inner.forward(*args, *free)
        return outputs[:count], outputs[count:]

    return run


def grad_and_value(inner: fx.GraphModule, which: Which, args: Tensors, free: tuple[Any, ...]) -> Tensors:
    """The gradients of a graph's first output, and its outputs."""

    def run(*args: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
        output, *others = inner.forward(*args, *free)
        return output, tuple(others)

    gradients, (output, others) = grad_and_value_impl(run, tuple(range(len(args))) if which is None else which, True, args, {})
    return *gradients, output, *others


def jvp(inner: fx.GraphModule, which: Which, count: int, strict: bool, args: Tensors, tangents: Tensors, free: tuple[Any, ...]) -> Tensors:
    """A graph's first `count` outputs, their tangents, and its other outputs."""
    outputs, found, others = _jvp_with_argnums(in_parts(inner, count, free), args, tangents, which, strict=strict, has_aux=True)  # type: ignore[misc]
    return *outputs, *found, *others


def push_forward(inner: fx.GraphModule, count: int, args: Tensors, tangents: Tensors, free: tuple[Any, ...]) -> Tensors:
    """The tangents of a graph's `count` outputs."""
    return jvp(inner, None, count, False, args, tangents, free)[count:]


def vjp(inner: fx.GraphModule, which: Which, count: int, args: Tensors, free: tuple[Any, ...]) -> tuple[Any, ...]:
    """A graph's outputs, and the function that computes the gradients of the first `count` of them, for `pull_back`."""
    outputs, backward, others = _vjp_with_argnums(in_parts(inner, count, free), *args, argnums=which, has_aux=True)  # type: ignore[misc]
    return *outputs, *others, backward


def pull_back(backward: Callable[..., Tensors], gradients: Tensors, retain_graph: bool, create_graph: bool | None) -> Tensors:
    """The results of the function returned by a `vjp`."""
    return backward(gradients, retain_graph=retain_graph, create_graph=create_graph)
