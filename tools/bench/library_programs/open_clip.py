"""Programs with OpenCLIP: towers of images and of texts, trained together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from open_clip.loss import ClipLoss
from open_clip.model import CLIP
from torch import nn

from tools.bench.library_programs.program import Compile, model, program

VISION: dict[str, Any] = {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8}
TEXT: dict[str, Any] = {"context_length": 16, "vocab_size": 64, "width": 32, "heads": 2, "layers": 2}
BATCHES = (2, 3, 2, 4)


def pairs(turn: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images, and texts whose last token is the one at which the tower is read."""
    texts = torch.randint(1, 60, (BATCHES[turn], 16))
    texts[:, -1] = 63
    return torch.randn(BATCHES[turn], 3, 32, 32), texts


def contrast(network: nn.Module, images: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
    return ClipLoss()(*network(images, texts)[:3])


@model(pairs, contrast)
def clip() -> nn.Module:
    """CLIP with two transformers"""
    return CLIP(embed_dim=16, vision_cfg=VISION, text_cfg=TEXT)


@program
def zero_shot(compiled: Compile) -> Iterator[Any]:
    """Classification of images by texts."""
    network = CLIP(embed_dim=16, vision_cfg=VISION, text_cfg=TEXT).eval()

    @compiled
    @torch.no_grad()
    def classified(images: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
        seen, read = network.encode_image(images, normalize=True), network.encode_text(texts, normalize=True)
        return (100 * seen @ read.T).softmax(-1)

    for turn in range(3):
        yield classified(*pairs(turn))


@program
def checkpointed_steps(compiled: Compile) -> Iterator[Any]:
    """Training steps with activation checkpointing, after which the scale of logits is clamped."""
    network, loss = CLIP(embed_dim=16, vision_cfg=VISION, text_cfg=TEXT).train(), ClipLoss()
    network.set_grad_checkpointing()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)

    @compiled
    def step(images: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        value = loss(*network(images, texts)[:3])
        value.backward()
        optimizer.step()
        with torch.no_grad():
            network.logit_scale.clamp_(0, 4.6)
        return value.detach()

    for turn in range(4):
        yield step(*pairs(turn))
    yield network, optimizer
