"""Programs with jaxtyping: shapes and dtypes in annotations, checked at each call by beartype."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor, nn

from tools.bench.library_programs.program import model


@jaxtyped(typechecker=beartype)
def attend(q: Float[Tensor, "b t d"], k: Float[Tensor, "b s d"], v: Float[Tensor, "b s e"]) -> Float[Tensor, "b t e"]:  # noqa: F722
    return torch.softmax(q @ k.transpose(1, 2) / q.shape[-1] ** 0.5, -1) @ v


class Network(nn.Module):
    """A language model of one layer, with its shapes in its annotations."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.qkv, self.out = nn.Embedding(32, 16), nn.Linear(16, 48), nn.Linear(16, 32)

    @jaxtyped(typechecker=beartype)
    def forward(self, ids: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time vocab"]:  # noqa: F722
        return self.out(attend(*self.qkv(self.embed(ids)).chunk(3, -1)))


def next_token(network: nn.Module, ids: Tensor) -> Tensor:
    return F.cross_entropy(network(ids).flatten(0, 1), ids.flatten())


@model(lambda turn: (torch.randint(0, 32, (2, (6, 8, 7, 9)[turn])),), next_token)
def checked_network() -> nn.Module:
    """A network whose annotations beartype checks"""
    return Network()
