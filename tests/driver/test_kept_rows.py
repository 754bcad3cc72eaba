"""Entries on disk whose gradients depend on data: those of branches that skip rows of which there may be none."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch
from torch import nn

import framejit
from tests.driver.test_kept import on_disk  # noqa: F401

LAYERS = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])


def added(x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for index, layer in enumerate(LAYERS):
        rows = torch.where(chosen == index)[0]
        if rows.numel() == 0:
            continue
        out.index_add_(0, rows, layer(x[rows]))
    return out


@pytest.mark.only_eager(reason="names its backend itself")
def test_a_later_process_knows_which_layers_have_no_gradient(on_disk: pathlib.Path) -> None:  # noqa: F811
    for is_kept in (False, True):
        framejit.reset()
        compiled = framejit.compile(added, backend="inductor")
        for chosen in ([0.0, 0, 1], [0.0, 0, 0], [1.0, 2, 1], [2.0, 2, 2]):
            found: list[Any] = []
            for function in (added, compiled):
                LAYERS.zero_grad()
                out = function(torch.ones(3, 4), torch.tensor(chosen))
                if out.requires_grad:
                    out.sum().backward()
                found.append((out.requires_grad, [leaf.grad is None for leaf in LAYERS.parameters()], out.detach()))
            assert found[0][:2] == found[1][:2]
            torch.testing.assert_close(found[0][2], found[1][2])
        assert (framejit.statistics()["frames"] == 0) is is_kept
