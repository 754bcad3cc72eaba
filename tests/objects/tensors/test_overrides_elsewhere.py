"""Overrides of torch's functions in what a graph runs by itself: checkpoints, autograd.Functions, inner graphs, functions that are declared to be nodes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops.map import map as map_rows
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

import framejit

asked: list[Any] = []


class Doubling(torch.Tensor):
    """Doubles each sum."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        return super().__torch_function__(torch.Tensor.mul, types, (result, 2)) if func.__name__ in ("add", "__add__") else result


class Tripling(TorchFunctionMode):
    """Triples each sine, and notes what it is asked."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        asked.append(func.__name__)
        result = func(*args, **(kwargs or {}))
        return result * 3 if func is torch.sin else result


class Adding(torch.autograd.Function):
    """Its backward computes with what it has saved: in eager overrides are off then, where backward() is called on a tensor of a subclass."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x + torch.sin(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.sin(x + 1)


@framejit.allow_in_graph
def node(x):
    return torch.sin(x + 1)


@framejit.allow_in_graph
def node_of_dict(values):
    return {"sum": values["x"] + 1}


@torch.compiler.nested_compile_region
def region(x):
    return x + 1


once = functools.partial(checkpoint, use_reentrant=False)
ones = torch.ones(2)
SUBCLASS: dict[str, Callable[[Any], Any]] = {
    "checkpoint": lambda x: once(lambda y: (y + 1).sin(), x),
    "checkpoint of what is plain": lambda x: once(lambda y: y + x, torch.ones(2)) + 1,
    "checkpoint, made inside": lambda x: once(lambda y: y.as_subclass(Doubling) + 1, x.as_subclass(torch.Tensor)) + 1,
    "autograd.Function": lambda x: Adding.apply(x) + 1,
    "autograd.grad": lambda x: torch.autograd.grad((x * (w := ones.clone().requires_grad_())).sum(), w)[0] + 1,
    "map": lambda x: map_rows(lambda row: row + 1, x) + 1,
    "a declared node": lambda x: node(x) + 1,
    "a declared node, of a dict": lambda x: node_of_dict({"x": x})["sum"] + 1,
    "a region": lambda x: region(x) + region(x),
}


def seen(function: Callable[..., Any], *args: Any) -> Any:
    """The class and the values of a result, the gradient that it gives the first argument, and what a mode was asked."""
    asked.clear()
    result = function(*args)
    names = [*asked]
    gradient = None
    if args[0].requires_grad and result.requires_grad:
        result.sum().backward()
        gradient, args[0].grad = args[0].grad, None
    with torch._C.DisableTorchFunction():
        return type(result), result.tolist(), None if gradient is None else (type(gradient), gradient.tolist()), names


@pytest.mark.parametrize("backend", ("eager", "aot_eager"))
@pytest.mark.parametrize("name", SUBCLASS)
def test_what_a_graph_runs_by_itself_is_overridden_as_in_eager(name: str, backend: str) -> None:
    x = torch.rand(2).as_subclass(Doubling).requires_grad_(name != "map")
    compiled = framejit.compile(SUBCLASS[name], backend=backend, isolate_recompiles=True)
    for _ in range(2):
        assert seen(compiled, x) == seen(SUBCLASS[name], x)


UNDER_A_MODE: dict[str, Callable[[Any], Any]] = {
    "autograd.Function": lambda x: Adding.apply(x),
    "autograd.grad": lambda x: torch.autograd.grad(torch.sin(x).sum(), x)[0],
    "a declared node": node,
    "torch.func.grad": lambda x: torch.func.grad(lambda y: torch.sin(y).sum())(x),
    "torch.vmap": lambda x: torch.vmap(torch.sin)(x),
}
if torch.__version__ >= "2.13":  # in eager, torch 2.11's own compiler fails there
    UNDER_A_MODE["map"] = lambda x: map_rows(lambda row: row * 2, x.detach())


@pytest.mark.parametrize("name", UNDER_A_MODE)
def test_a_mode_is_asked_by_what_a_graph_runs_by_itself(name: str) -> None:
    def program(x: torch.Tensor) -> Any:
        with Tripling():
            return UNDER_A_MODE[name](x)

    compiled = framejit.compile(program, backend="eager", isolate_recompiles=True)
    for _ in range(2):
        x = torch.rand(2, requires_grad=True)
        assert seen(compiled, x) == seen(program, x)
        assert torch._C._len_torch_function_stack() == 0
