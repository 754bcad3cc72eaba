"""Programs with rotary-embedding-torch: attention with rotary positions."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from rotary_embedding_torch import RotaryEmbedding
from torch import nn

from tools.bench.library_programs.program import model


class Attention(nn.Module):
    """Causal attention with two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.rotary, self.qkv = RotaryEmbedding(dim=8), nn.Linear(32, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (2, 16)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        q, k = self.rotary.rotate_queries_or_keys(q), self.rotary.rotate_queries_or_keys(k)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


def sequences(turn: int) -> tuple[torch.Tensor]:
    return (torch.randn(2, (16, 24, 20, 28)[turn], 32),)


def squares(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return network(x).square().mean()


@model(sequences, squares)
def rotary() -> nn.Module:
    """Attention with rotary positions, which the library keeps in a buffer"""
    return Attention()
