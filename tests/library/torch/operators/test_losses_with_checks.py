"""Losses in Python that look at the data of their arguments, to refuse some: the check is part of the graph."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import framejit

BACKENDS = ("eager", "aot_eager")


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("full", [False, True])
def test_gaussian_nll_loss(backend: str, full: bool) -> None:
    """A negative variance is an error, in eager's words, and needs no further graph."""

    def loss(x: torch.Tensor, target: torch.Tensor, var: torch.Tensor) -> torch.Tensor:
        return torch.nn.GaussianNLLLoss(full=full)(x * 2, target, var) + functional.gaussian_nll_loss(x, target, var, reduction="none").mean()

    framejit.reset()
    compiled = framejit.compile(loss, backend=backend)
    x, target = torch.randn(4, 3), torch.randn(4, 3)
    for var in (torch.rand(4, 3), torch.rand(4, 3) + 1):
        torch.testing.assert_close(compiled(x, target, var), loss(x, target, var))
        left, right = x.clone().requires_grad_(), x.clone().requires_grad_()
        torch.testing.assert_close(torch.autograd.grad(compiled(right, target, var), right), torch.autograd.grad(loss(left, target, var), left))
    with pytest.raises(ValueError) as expected:
        loss(x, target, -torch.ones(4, 3))
    with pytest.raises(ValueError) as found:
        compiled(x, target, -torch.ones(4, 3))
    assert str(found.value) == str(expected.value)
    statistics = framejit.statistics()
    assert (statistics["graph_breaks"], statistics["graphs"], statistics["fallbacks"]) == (0, 2, 0), statistics
