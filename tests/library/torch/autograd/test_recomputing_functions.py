"""An autograd.Function whose backward asks autograd for gradients: of what it computes once more, or of one step to a fixed point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

import framejit

BACKENDS = ("eager", "aot_eager")
W = torch.randn(3, 3, requires_grad=True)


def layer(x: Any, w: Any) -> Any:
    return torch.tanh(x @ w).sin()


class Recomputed(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return layer(x, w)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        with torch.enable_grad():
            x, w = [tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
            y = layer(x, w)
        return torch.autograd.grad(y, (x, w), gradient)


class RecomputedOnce(Recomputed):
    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Any) -> Any:
        return Recomputed.backward(ctx, gradient)


class WithBackward(Recomputed):
    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Any) -> Any:
        x, w = [tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
        with torch.enable_grad():
            y = layer(x, w)
        y.backward(gradient)
        return x.grad, w.grad


class FixedPoint(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        z = torch.zeros_like(x)
        for _ in range(5):
            z = torch.tanh(z @ w * 0.2 + x)
        ctx.save_for_backward(x, w, z)
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Any) -> Any:
        with torch.enable_grad():
            x, w, z = [tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
            step = torch.tanh(z @ w * 0.2 + x)
        solved = gradient
        for _ in range(5):
            solved = gradient + torch.autograd.grad(step, z, solved, retain_graph=True)[0]
        return torch.autograd.grad(step, (x, w), solved)


class OfWhatIsSaved(Recomputed):
    """Asks for gradients of its own arguments: what autograd has recorded of them beforehand belongs to the program."""

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Any) -> Any:
        x, w = ctx.saved_tensors
        with torch.enable_grad():
            y = layer(x, w)
        return torch.autograd.grad(y, (x, w), gradient)


class OfAnother(Recomputed):
    """Adds to the gradient of a parameter."""

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Any) -> Any:
        with torch.enable_grad():
            x, w = [tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
            y = layer(x, w) * W.sum()
        y.backward(gradient)
        return x.grad, w.grad


WHOLE = (RecomputedOnce, WithBackward, FixedPoint)
SPLIT = (Recomputed, OfWhatIsSaved, OfAnother)
"""With AOTAutograd, the first is one graph, too."""


def told(function: type[Function], compile: Callable[[Any], Any], inside: bool) -> list[Any]:
    """Gradients of two calls, with the backward pass inside of what is compiled or behind it."""
    torch.manual_seed(0)
    x, w, W.grad = torch.randn(4, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True), None

    def step(x: Any, w: Any) -> Any:
        loss = (function.apply(x * 2, w) * 3).pow(2).sum()
        if inside:
            loss.backward()
        return loss

    compiled, found = compile(step), []
    for _ in range(2):
        x.grad = w.grad = None
        loss = compiled(x, w)
        if not inside:
            loss.backward()
        found += [loss.detach(), x.grad, w.grad]
    return [*found, W.grad]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("function", [*WHOLE, *SPLIT])
def test_gradients(function: type[Function], inside: bool, backend: str) -> None:
    framejit.reset()
    expected = told(function, lambda f: f, inside)
    found = told(function, lambda f: framejit.compile(f, backend=backend), inside)
    torch.testing.assert_close(found, expected)
    if function in WHOLE or (function is Recomputed and backend == "aot_eager"):
        assert framejit.statistics()["graph_breaks"] == 0 and framejit.statistics()["graphs"] == 1, framejit.statistics()


def test_inside_a_transform() -> None:
    """torch raises an error for a function that recomputes its forward pass inside a transform; compiled code raises the same one."""

    class SetUp(Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x.sin()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, gradient: Any) -> Any:
            with torch.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                y = x.sin()
            return torch.autograd.grad(y, x, gradient)[0]

    framejit.reset()

    def program(x: Any) -> Any:
        return torch.func.grad(lambda y: SetUp.apply(y).sum())(x)

    said = []
    for call in (program, framejit.compile(program, backend="eager")):
        with pytest.raises(RuntimeError) as raised:
            call(torch.randn(3))
        said.append(str(raised.value))
    assert said[0] == said[1]
