"""Tensors that a forward pass saves for its backward pass are there for a second backward pass, with Inductor too."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import framejit


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2), nn.Sigmoid(), nn.Linear(2, 3), nn.GELU())


def gradients(function: nn.Module, passes: int) -> torch.Tensor:
    torch.manual_seed(1)
    x = torch.randn(3, 4, requires_grad=True)
    result = function(x).square().sum()
    for more in reversed(range(passes)):
        result.backward(retain_graph=bool(more))
    assert x.grad is not None
    return x.grad


@pytest.mark.slow
def test_backward_passes_after_others_that_ran_once() -> None:
    for compiled in (framejit.compile(model()), framejit.compile(model())):  # the code for the second one comes from Inductor's cache
        for passes in (1, 2, 3, 1):
            torch.testing.assert_close(gradients(compiled, passes), gradients(model(), passes))
        framejit.reset()
    torch.testing.assert_close(gradients(framejit.compile(model()), 2), gradients(model(), 2))
