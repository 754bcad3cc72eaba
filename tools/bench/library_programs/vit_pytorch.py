"""Programs with vit-pytorch: vision transformers, and what trains them without labels or from a teacher."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from vit_pytorch import Dino, ViT
from vit_pytorch.cait import CaiT
from vit_pytorch.distill import DistillableViT, DistillWrapper
from vit_pytorch.na_vit import NaViT

from tools.bench.library_programs.program import Compile, model, program, training

SMALL: dict[str, Any] = {"image_size": 32, "patch_size": 8, "num_classes": 10, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 64}
BATCHES = (2, 3, 2, 4)


def images(turn: int) -> tuple[torch.Tensor]:
    return (torch.randn(BATCHES[turn], 3, 32, 32),)


def labels(count: int) -> torch.Tensor:
    return torch.arange(count) % 10


def classes(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(network(x), labels(x.shape[0]))


@model(images, classes)
def vit() -> nn.Module:
    """ViT with dropout"""
    return ViT(**SMALL, dropout=0.1, emb_dropout=0.1)


@model(images, classes)
def cait() -> nn.Module:
    """CaiT, which drops layers at random"""
    return CaiT(**SMALL, cls_depth=1, dropout=0.1, emb_dropout=0.1, layer_dropout=0.05)


class Grouped(nn.Module):
    """NaViT, called as its documentation does: it packs images of several sizes into groups."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = NaViT(image_size=64, patch_size=8, num_classes=10, dim=32, depth=1, heads=2, mlp_dim=32, token_dropout_prob=0.1)

    def forward(self, pictures: list[torch.Tensor]) -> torch.Tensor:
        return self.inner(pictures, group_images=True, group_max_seq_len=64)


@model(
    lambda turn: ([torch.randn(3, 32, 32), torch.randn(3, 16 * (turn % 2 + 1), 24), torch.randn(3, 24, 48)],),
    lambda network, pictures: F.cross_entropy(network(pictures), labels(3)),
)
def na_vit() -> nn.Module:
    """NaViT on lists of images of several sizes"""
    return Grouped()


@program
def dino_steps(compiled: Compile) -> Iterator[Any]:
    """Training steps of Dino, a student that follows the moving average of itself."""
    learner = Dino(
        ViT(**SMALL), image_size=32, hidden_layer="to_latent", projection_hidden_size=16, projection_layers=2, num_classes_K=64, moving_average_decay=0.9
    )
    optimizer = torch.optim.Adam(learner.parameters(), lr=1e-3)

    @compiled
    def step(x: torch.Tensor) -> torch.Tensor:
        loss = learner(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        learner.update_moving_average()
        return loss.detach()

    for turn in range(4):
        yield step(*images(turn))
    yield learner, optimizer


@program
def distillation_steps(compiled: Compile) -> Iterator[Any]:
    """Training steps of a ViT that learns from a convolutional teacher."""
    teacher = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))
    distiller = DistillWrapper(student=DistillableViT(**SMALL), teacher=teacher, temperature=3, alpha=0.5, hard=False)
    batches = ((*images(turn), labels(BATCHES[turn])) for turn in range(4))
    yield from training(compiled, distiller, lambda network, x, y: network(x, y), batches)
