"""jit/torch_state/own_operators.py: an operator of framejit's own is one declaration, and is right in graphs of all backends."""

from __future__ import annotations

import pytest
import torch

import framejit
from framejit.graph.rewrites import REWRITES, rewrites
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
