"""jit/torch_state/own_operators.py: an operator of framejit's own is one declaration, and is right in graphs of all backends."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch._library import autograd

import framejit
from framejit.graph.rewrites import REWRITES, rewrites
from framejit.torch_state import own_operators
from framejit.torch_state.own_operators import declare_operator


@declare_operator("toy_scaled(Tensor x, float factor) -> Tensor")
def scaled(x, factor):
    return x * factor


@scaled.fake
def looks(x, factor):
    return torch.empty_like(x)


def remember(ctx, inputs, output):
    _, ctx.factor = inputs


@scaled.gradient(remember)
def differentiate(ctx, gradient):
    return scaled(gradient, ctx.factor), None


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_a_declared_operator_is_a_node_with_a_gradient(backend):
    def f(x):
        return scaled(x.sin(), 3.0).sum()

    x, y = torch.arange(4.0, requires_grad=True), torch.arange(4.0, requires_grad=True)
    f(x).backward()
    framejit.compile(f, backend=backend, fullgraph=True)(y).backward()
    assert torch.allclose(x.grad, y.grad) and torch.allclose(x.grad, 3 * torch.arange(4.0).cos())
    assert scaled.overload is torch.ops.framejit.toy_scaled.default and scaled.run(2, 3.0) == 6.0


def test_the_kernel_for_gradients_is_made_by_the_first_call(monkeypatch):
    made = []

    def noted(*args):
        made.append(args)
        return autograd.make_autograd_impl(*args)

    monkeypatch.setattr(own_operators, "autograd", SimpleNamespace(make_autograd_impl=noted, Info=autograd.Info))

    @declare_operator("toy_late(Tensor x) -> Tensor")
    def late(x):
        return x * 2

    @late.gradient(lambda ctx, inputs, output: None)
    def of_late(ctx, gradient):
        return gradient * 2

    assert not made
    x = torch.ones(2, requires_grad=True)
    for _ in range(2):
        late(x).sum().backward()
    assert len(made) == 1 and x.grad.tolist() == [4.0, 4.0]


def test_a_rewrite_for_aot_autograd_is_applied_and_is_the_only_one(monkeypatch):
    rewritten = []

    def to_ours(node):
        rewritten.append(node)
        node.target, node.args = scaled.overload, (node.args[0], 0.5)

    monkeypatch.setitem(REWRITES, torch.log1p, to_ours)
    x = torch.ones(3)
    assert torch.equal(framejit.compile(lambda x: torch.log1p(x), backend="aot_eager", fullgraph=True)(x), x / 2)
    assert len(rewritten) == 1
    with pytest.raises(AssertionError):
        rewrites(torch.lstm)(to_ours)
