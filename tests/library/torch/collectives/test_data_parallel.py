"""DistributedDataParallel, compiled from outside: one graph, two graph breaks, and eager's gradients."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import framejit


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


@pytest.mark.parametrize("finds_unused", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_around_it_has_one_graph(backend: str, finds_unused: bool) -> None:
    model = make_model()
    eager, inner = (DistributedDataParallel(copy.deepcopy(model), find_unused_parameters=finds_unused) for _ in range(2))
    compiled = framejit.compile(inner, backend=backend)
    for step in range(4):
        x = torch.randn(3, 4)
        for called in (eager, compiled):
            called(x).square().mean().backward()
        for left, right in zip(eager.parameters(), inner.parameters()):
            assert left.grad is not None and right.grad is not None
            torch.testing.assert_close(left.grad, right.grad)
    found = framejit.statistics()
    assert (found["graphs"], found["graph_breaks"], found["recompiles"]) == (1, 2, 0)


def test_no_sync_is_read_at_each_call() -> None:
    inner = DistributedDataParallel(make_model())
    compiled = framejit.compile(inner, backend="eager")
    x = torch.randn(3, 4)
    compiled(x).sum().backward()
    with inner.no_sync():
        compiled(x).sum().backward()
    assert not inner.require_forward_param_sync
    compiled(x).sum().backward()
    assert inner.require_forward_param_sync
    assert framejit.statistics()["graphs"] == 1


def test_inside_a_compiled_step() -> None:
    inner = DistributedDataParallel(make_model())

    def loss(x: torch.Tensor) -> torch.Tensor:
        return inner(x * 2).square().mean()

    x = torch.randn(3, 4)
    torch.testing.assert_close(framejit.compile(loss, backend="eager")(x), loss(x))
    assert framejit.statistics()["graph_breaks"] == 2
