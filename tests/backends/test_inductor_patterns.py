"""Graphs that one of Inductor's patterns nearly matches are compiled as they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import framejit


def shuffled(x: torch.Tensor) -> torch.Tensor:
    return x[torch.randperm(x.shape[0])] * 2


def some(x: torch.Tensor) -> torch.Tensor:
    return x[torch.randperm(x.shape[0])[:5]] * 2


def shuffled_and_back(x: torch.Tensor) -> torch.Tensor:
    order = torch.randperm(x.shape[0])
    return x[order].cumsum(1)[torch.argsort(order)]


def selected(x: torch.Tensor) -> torch.Tensor:
    return x.index_select(0, torch.randperm(8)).sin()


def added(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(8, 4).index_add(0, torch.randperm(8)[: x.shape[0]], x)


@pytest.mark.parametrize("function", [shuffled, some, shuffled_and_back, selected, added])
@pytest.mark.parametrize("grad", [False, True])
def test_permutations_as_indices(function: Callable[[torch.Tensor], torch.Tensor], grad: bool) -> None:
    compiled = framejit.compile(function, fullgraph=True, options={"fallback_random": True})  # draws eager's numbers
    x = torch.randn(8, 4, requires_grad=grad)
    y = x.detach().clone().requires_grad_(grad)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        expected = function(x)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        found = compiled(y)
    torch.testing.assert_close(found, expected)
    if grad:
        expected.sum().backward()
        found.sum().backward()
        torch.testing.assert_close(y.grad, x.grad)
