"""Average pooling whose windows reach over the edge, with the gradients of Inductor's code."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import framejit

POOLINGS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, ...]]] = {
    "rows": (lambda x: F.avg_pool1d(x, 3, 2, 1, ceil_mode=True), (2, 6)),
    "rows that are stepped over": (nn.AvgPool1d(2, 3, ceil_mode=True), (1, 2, 7)),
    "planes": (nn.AvgPool2d(3, 2, padding=1, ceil_mode=True), (1, 2, 6, 8)),
    "planes with the kernel as stride": (lambda x: F.avg_pool2d(x, kernel_size=(2, 3), ceil_mode=True), (2, 7, 7)),
    "planes without their padding": (nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False), (1, 2, 6, 6)),
    "planes with a divisor": (lambda x: F.avg_pool2d(x, 2, ceil_mode=True, divisor_override=3), (1, 2, 7, 7)),
    "planes without windows over the edge": (nn.AvgPool2d(2), (1, 2, 7, 7)),
    "spaces": (nn.AvgPool3d((2, 3, 2), ceil_mode=True), (1, 2, 5, 7, 6)),
    "channels last": (lambda x: F.avg_pool2d(x.to(memory_format=torch.channels_last), 2, ceil_mode=True), (1, 3, 7, 7)),
}


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize(("backend", "dynamic"), [("aot_eager", None), ("aot_eager", True), ("inductor", None)])
@pytest.mark.parametrize("name", POOLINGS)
def test_results_and_gradients_are_those_of_eager(name: str, backend: str, dynamic: bool | None):
    pool, shape = POOLINGS[name]

    def pooled(x: torch.Tensor) -> torch.Tensor:
        return pool(x).pow(2)

    framejit.reset()
    compiled = framejit.compile(pooled, backend=backend, dynamic=dynamic)
    for extra in (0, 1) if dynamic else (0,):
        given = torch.randn(*shape[:-1], shape[-1] + extra)
        found = []
        for run in (pooled, compiled):
            x = given.clone().requires_grad_()
            result = run(x)
            result.sum().backward()
            found.append((result.detach(), x.grad))
        for expected, got in zip(*found, strict=True):
            torch.testing.assert_close(got, expected)
    assert framejit.statistics()["fallbacks"] == 0
