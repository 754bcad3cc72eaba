"""Programs with MONAI: networks, losses, inference, metrics and transforms of medical images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from monai import losses, metrics, transforms
from monai.data import MetaTensor, decollate_batch
from monai.inferers import DiffusionInferer, SlidingWindowInferer, sliding_window_inference
from monai.networks import nets
from monai.networks.blocks import Warp
from monai.networks.schedulers import DDPMScheduler
from torch import nn

from tools.bench.library_programs.program import Compile, model, program, training

BATCHES = (2, 2, 3, 4)
SIZES = ((40, 40), (40, 40), (44, 36), (33, 50))


def images(turn: int) -> tuple[torch.Tensor]:
    return (torch.randn(BATCHES[turn], 1, 32, 32),)


def labels(count: int) -> torch.Tensor:
    return torch.randint(0, 2, (count, 1, 32, 32)).float()


def squares(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The mean square of all outputs."""
    found = network(x)
    return sum(part.float().pow(2).mean() for part in (found if isinstance(found, tuple) else (found,)))  # type: ignore[return-value]


def small_unet() -> nn.Module:
    return nets.UNet(spatial_dims=2, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2))


@model(images, squares)
def unet() -> nn.Module:
    """UNet"""
    return nets.UNet(spatial_dims=2, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2), num_res_units=1)


@model(images, squares)
def basic_unet() -> nn.Module:
    """BasicUNet"""
    return nets.BasicUNet(spatial_dims=2, features=(4, 4, 8, 8, 8, 4))


@program
def dict_batch_steps(compiled: Compile) -> Iterator[Any]:
    """The tutorial's training step: UNet and DiceCELoss on dicts of tensors."""
    loss = losses.DiceCELoss(to_onehot_y=True, softmax=True)
    batches = (({"image": torch.randn(count, 1, 32, 32), "label": labels(count)},) for count in BATCHES)
    yield from training(compiled, small_unet(), lambda network, batch: loss(network(batch["image"]), batch["label"]), batches)


@program
def meta_tensor_steps(compiled: Compile) -> Iterator[Any]:
    """The tutorial's training step on dicts of MetaTensors, as MONAI's loaders give them."""
    loss = losses.DiceLoss(to_onehot_y=True, softmax=True)
    batches = (({"image": MetaTensor(torch.randn(count, 1, 32, 32)), "label": MetaTensor(labels(count))},) for count in BATCHES)
    yield from training(compiled, small_unet(), lambda network, batch: loss(network(batch["image"]), batch["label"]), batches)


@program
def segmentation_losses(compiled: Compile) -> Iterator[Any]:
    """Seven losses of segmentation with their gradients, each compiled."""
    given = {"to_onehot_y": True, "softmax": True}
    of_softmax = [losses.DiceLoss(**given), losses.DiceFocalLoss(**given), losses.GeneralizedDiceLoss(**given), losses.TverskyLoss(**given)]
    for loss in (*of_softmax, losses.DiceCELoss(**given), losses.FocalLoss(to_onehot_y=True), losses.AsymmetricUnifiedFocalLoss(to_onehot_y=True)):

        def step(x: torch.Tensor, y: torch.Tensor, loss: nn.Module = loss) -> tuple[Any, ...]:
            x = x.clone().requires_grad_()
            value = loss(x, y)
            value.backward()
            return value.detach(), x.grad

        call = compiled(step)
        for count in (1, 2, 3):
            yield call(torch.randn(count, 2, 32, 32), labels(count))


@program
def sliding_window(compiled: Compile) -> Iterator[Any]:
    """sliding_window_inference with a network, compiled as a whole."""
    network = small_unet().eval()

    @compiled
    @torch.no_grad()
    def inferred(x: torch.Tensor) -> torch.Tensor:
        return sliding_window_inference(x, (16, 16), 4, network, overlap=0.25, mode="gaussian")

    for size in SIZES:
        yield inferred(torch.randn(1, 1, *size))


@program
def window_network_alone(compiled: Compile) -> Iterator[Any]:
    """SlidingWindowInferer with only its network compiled."""
    network, inferer = compiled(small_unet().eval()), SlidingWindowInferer((16, 16), 4, 0.25)
    for size in SIZES:
        x = torch.randn(1, 1, *size)
        with torch.no_grad():
            result = inferer(x, network)
        yield result


@program
def validation(compiled: Compile) -> Iterator[Any]:
    """A validation step: the network, decollate_batch, AsDiscrete and DiceMetric."""
    network, dice = small_unet().eval(), metrics.DiceMetric(include_background=False, reduction="mean")
    of_output = transforms.Compose([transforms.AsDiscrete(argmax=True, to_onehot=2)])
    of_label = transforms.Compose([transforms.AsDiscrete(to_onehot=2)])

    @compiled
    def step(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        with torch.no_grad():
            output = network(x)
        outputs = [of_output(one) for one in decollate_batch(output)]
        dice(y_pred=outputs, y=[of_label(one) for one in decollate_batch(y)])
        return outputs

    for count in BATCHES:
        yield step(torch.randn(count, 1, 32, 32), labels(count))
    yield dice.aggregate()


@program
def array_transforms(compiled: Compile) -> Iterator[Any]:
    """Transforms of arrays: scaling, random flips and noise, padding, cropping, normalising."""
    changes = [transforms.ScaleIntensity(), transforms.RandFlip(0.5, 1), transforms.RandGaussianNoise(0.5), transforms.SpatialPad((24, 24))]
    pipeline = transforms.Compose([*changes, transforms.CenterSpatialCrop((20, 20)), transforms.NormalizeIntensity()]).set_random_state(0)
    call = compiled(lambda x: pipeline(x))
    for size in (16, 18, 20):
        yield call(torch.rand(1, size, size))


@program
def diffusion_steps(compiled: Compile) -> Iterator[Any]:
    """Training steps of a DiffusionModelUNet with DDPMScheduler and DiffusionInferer."""
    network = nets.DiffusionModelUNet(
        2, 1, 1, num_res_blocks=(1, 1), channels=(8, 8), attention_levels=(False, True), norm_num_groups=4, num_head_channels=4
    )
    inferer = DiffusionInferer(DDPMScheduler(num_train_timesteps=50))

    def loss(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
        noise, times = torch.randn_like(x), torch.randint(0, 50, (x.shape[0],)).long()
        return F.mse_loss(inferer(inputs=x, diffusion_model=network, noise=noise, timesteps=times).float(), noise.float())

    yield from training(compiled, network, loss, ((torch.randn(count, 1, 16, 16),) for count in BATCHES))


@program
def registration_steps(compiled: Compile) -> Iterator[Any]:
    """Training steps of LocalNet, which warps one image to another."""
    network = nets.LocalNet(
        spatial_dims=2, in_channels=2, out_channels=2, num_channel_initial=4, extract_levels=[0, 1], out_kernel_initializer="zeros", out_activation=None
    )
    warp, bending = Warp(), losses.BendingEnergyLoss()

    def loss(network: nn.Module, moving: torch.Tensor, fixed: torch.Tensor) -> torch.Tensor:
        field = network(torch.cat([moving, fixed], 1))
        return (warp(moving, field) - fixed).pow(2).mean() + bending(field)

    yield from training(compiled, network, loss, ((torch.rand(count, 1, 16, 16), torch.rand(count, 1, 16, 16)) for count in BATCHES))
