"""Programs with einx: operations on tensors that are named in a notation like Einstein's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import einx
import torch
from torch import nn

from tools.bench.library_programs.program import Compile, model, program


class Attention(nn.Module):
    """A linear layer, layer norm and attention, all in einx's notation."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(16, 32) * 0.1), nn.Parameter(torch.zeros(32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = einx.add("... d, d", einx.dot("b t [c], [c] d -> b t d", x, self.weight), self.bias)
        mean, variance = einx.mean("b t [d] -> b t 1", y), einx.var("b t [d] -> b t 1", y)
        y = einx.id("b t (h d) -> b h t d", (y - mean) * torch.rsqrt(variance + 1e-5), h=4)
        weights = einx.softmax("b h q [k]", einx.dot("b h q [d], b h k [d] -> b h q k", y, y))
        return einx.dot("b h q [k], b h [k] d -> b h q d", weights, y)


@model(lambda turn: (torch.randn(2, (6, 8, 7, 9)[turn], 16),), lambda network, x: network(x).square().mean())
def attention() -> nn.Module:
    """Attention in einx's notation"""
    return Attention()


@program
def indexing(compiled: Compile) -> Iterator[Any]:
    """Items at indices, choices, and reductions."""

    @compiled
    def computed(x: torch.Tensor, index: torch.Tensor) -> list[torch.Tensor]:
        items = einx.get_at("[n] d, b t -> b t d", x, index)
        signed = einx.where("b t, b t d, b t d -> b t d", index > 2, items, -items)
        return [einx.sum("b [t] d", signed), einx.max("[a] d -> d", x), einx.flip("[a] d", x)]

    for rows in (5, 6, 7):
        yield computed(torch.randn(rows, 4), torch.randint(0, 5, (2, rows - 2)))
