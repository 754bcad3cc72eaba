"""Programs with segmentation_models_pytorch: encoders with decoders, losses and metrics of segmentation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import segmentation_models_pytorch as smp
import torch
from torch import nn

from tools.bench.library_programs.program import Compile, model, program, training

HEIGHTS = (64, 96, 64, 128)
DICE = smp.losses.DiceLoss("binary", from_logits=True)


def images(turn: int) -> tuple[torch.Tensor]:
    return (torch.randn(2, 3, HEIGHTS[turn], 64),)


def dice(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The Dice loss for a mask of the bright parts."""
    return DICE(network(x), (x.mean(1, keepdim=True) > 0).float())


SMALL: dict[str, Any] = {"encoder_name": "resnet18", "encoder_weights": None, "classes": 1}


@model(images, dice)
def unet() -> nn.Module:
    """Unet over a ResNet"""
    return smp.Unet(**SMALL, encoder_depth=3, decoder_channels=(16, 8, 8))


@model(images, dice)
def deep_lab() -> nn.Module:
    """DeepLabV3Plus over a ResNet"""
    return smp.DeepLabV3Plus(**SMALL, decoder_channels=16)


def of_classes(turn: int) -> tuple[torch.Tensor, torch.Tensor]:
    return *images(turn), torch.randint(0, 4, (2, HEIGHTS[turn], 64))


@program
def lovasz_steps(compiled: Compile) -> Iterator[Any]:
    """Training steps with the Lovasz loss of several classes."""
    loss = smp.losses.LovaszLoss("multiclass")
    yield from training(compiled, nn.Conv2d(3, 4, 3, padding=1), lambda network, x, y: loss(network(x), y), map(of_classes, range(4)))


@program
def focal_steps(compiled: Compile) -> Iterator[Any]:
    """Training steps with the sum of the focal, Dice and smoothed cross-entropy losses of several classes."""
    losses = [smp.losses.FocalLoss("multiclass"), smp.losses.DiceLoss("multiclass"), smp.losses.SoftCrossEntropyLoss(smooth_factor=0.1)]

    def loss(network: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        output = network(x)
        return losses[0](output, y) + losses[1](output, y) + losses[2](output, y)

    yield from training(compiled, nn.Conv2d(3, 4, 3, padding=1), loss, map(of_classes, range(4)))


@program
def metrics(compiled: Compile) -> Iterator[Any]:
    """Intersection over union, F1, accuracy and recall."""

    @compiled
    def computed(output: torch.Tensor, target: torch.Tensor) -> list[torch.Tensor]:
        counts = smp.metrics.get_stats((output > 0.5).long(), target.long(), mode="binary")
        scores = [smp.metrics.iou_score(*counts, reduction="micro"), smp.metrics.f1_score(*counts, reduction="macro-imagewise")]
        return [*scores, smp.metrics.accuracy(*counts, reduction="macro"), smp.metrics.recall(*counts, reduction="micro-imagewise")]

    for height in (8, 9, 10):
        yield computed(torch.rand(2, 1, height, 8), torch.rand(2, 1, height, 8) > 0.5)
