"""Running statistics of normalisations, which are changed though no schema and no version counter says so."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from agreement import agree
from torch import nn

import framejit

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])
x = torch.arange(24.0).reshape(2, 3, 4).sin()


def statistics() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(3), torch.ones(3)


class Unused(nn.Module):
    """A model with a layer whose result nobody needs: MobileNetV2 of transformers has one where it segments."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 4), norm

    def forward(self, t: torch.Tensor) -> torch.Tensor:
        t = self.linear(t)
        self.norm(t).relu()
        return t * 2


@BACKENDS
@pytest.mark.parametrize(
    "norm",
    [
        lambda: nn.BatchNorm1d(3),
        lambda: nn.BatchNorm1d(3, momentum=None),
        lambda: nn.BatchNorm1d(3, affine=False),
        lambda: nn.InstanceNorm1d(3, track_running_stats=True),
    ],
)
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_a_layer_whose_result_nobody_needs(backend: str, norm: Callable[[], nn.Module], mode: Callable[[], torch.enable_grad]) -> None:
    model = Unused(norm())
    other = copy.deepcopy(model)
    compiled = framejit.compile(other, backend=backend)
    with mode():
        for _ in range(2):
            assert torch.equal(model(x), compiled(x))
    assert all(torch.equal(expected, found) for expected, found in zip(model.buffers(), other.buffers(), strict=True))
    assert not torch.equal(other.norm.running_mean, torch.zeros(3))


def by_functional(t: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> None:
    F.batch_norm(t, mean, variance, training=True)


def by_torch(t: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> None:
    torch.batch_norm(t, None, None, mean, variance, True, 0.1, 1e-5, False)


def by_native(t: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> None:
    torch.native_batch_norm(t, None, None, mean, variance, True, 0.1, 1e-5)


def by_operator(t: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> None:
    torch.ops.aten.native_batch_norm(t, None, None, mean, variance, True, 0.1, 1e-5)


def by_instances(t: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> None:
    F.instance_norm(t, mean, variance)


def under_flags(t: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> None:
    with torch.backends.mkldnn.flags(enabled=False):
        F.batch_norm(t, mean, variance, training=True)


UNDER_SETTINGS = pytest.mark.only_eager("with AOTAutograd, operators under a setting that the graph changes split it")


@pytest.mark.parametrize("norm", [by_functional, by_torch, by_native, by_operator, by_instances, pytest.param(under_flags, marks=UNDER_SETTINGS)])
def test_functions(norm: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]) -> None:
    def function(t: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        before = mean + 1
        norm(t, mean, variance)
        norm(t, mean, variance)
        return t + 1, before, mean * 2, variance.sum()

    agree(function, x, *statistics())


def test_nothing_is_kept_that_changes_no_statistics() -> None:
    def function(t: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        F.batch_norm(t, mean, variance)
        F.batch_norm(t, None, None, training=True)
        return t + 1

    graphs = []
    framejit.compile(function, backend=lambda gm, inputs: graphs.append(gm) or gm, fullgraph=True)(x, *statistics())
    (graph,) = graphs
    assert [node.op for node in graph.graph.nodes].count("call_function") == 1


@BACKENDS
def test_a_decision_by_statistics_that_the_graph_has_changed(backend: str) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(3)

        def forward(self, t: torch.Tensor) -> torch.Tensor:
            t = self.norm(t)
            return t + 1 if self.norm.running_mean.abs().sum() > 0 else t - 1

    model = Model()
    expected = copy.deepcopy(model)(x)
    assert torch.equal(framejit.compile(model, backend=backend)(x), expected)


@BACKENDS
def test_statistics_in_memory_that_another_argument_has(backend: str) -> None:
    def function(t: torch.Tensor, memory: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        y = F.batch_norm(t, mean, variance, training=True)
        return y, memory * 2

    compiled = framejit.compile(function, backend=backend)
    for shared in (False, True, False, True):
        results = []
        for called in (function, compiled):
            memory = torch.zeros(6)
            mean, variance = (memory[:3], memory[3:]) if shared else statistics()
            results.append((*called(x, memory, mean, variance), memory, mean, variance))
        assert all(torch.equal(expected, found) for expected, found in zip(*results, strict=True)), shared


def test_a_check_that_fails_behind_a_change() -> None:
    def function(t: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        y = F.batch_norm(t, mean, variance, training=True)
        torch._check(y.sum().item() > 100)
        return y + 1

    agree(function, x, *statistics(), fullgraph=False)
