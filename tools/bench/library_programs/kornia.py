"""Programs with kornia: augmentation, filters, colours, geometry, features and losses on batches of images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kornia
import kornia.augmentation as augmentation
import torch
import torch.nn.functional as F
from kornia.geometry.boxes import Boxes
from kornia.geometry.liegroup import Se3, So3
from kornia.geometry.quaternion import Quaternion
from torch import nn

from tools.bench.library_programs.program import Compile, program, training

BATCHES = (1, 2, 2, 3)


def images(count: int, channels: int = 3, size: int = 24) -> torch.Tensor:
    return torch.rand(count, channels, size, size)


@program
def augmentation_pipeline(compiled: Compile) -> Iterator[Any]:
    """ImageSequential of colours, an affine map, a flip and erasing."""
    pipeline = compiled(
        augmentation.ImageSequential(
            augmentation.ColorJiggle(0.1, 0.1, 0.1, 0.1, p=1.0),
            augmentation.RandomAffine(360, p=1.0),
            augmentation.RandomHorizontalFlip(p=0.5),
            augmentation.RandomErasing(p=0.5),
        )
    )
    for count in BATCHES:
        yield pipeline(images(count))


@program
def augmentation_of_targets(compiled: Compile) -> Iterator[Any]:
    """AugmentationSequential of images with their masks and boxes."""
    flip, turn = augmentation.RandomHorizontalFlip(p=0.5), augmentation.RandomRotation(30.0, p=1.0)
    pipeline = compiled(augmentation.AugmentationSequential(flip, turn, data_keys=["input", "mask", "bbox"]))
    box = torch.tensor([[[1.0, 1.0], [5.0, 1.0], [5.0, 5.0], [1.0, 5.0]]])
    for count in BATCHES:
        yield pipeline(images(count), images(count, 1), box[None].repeat(count, 1, 1, 1))


@program
def random_resized_crop(compiled: Compile) -> Iterator[Any]:
    """RandomResizedCrop of batches."""
    crop = compiled(augmentation.RandomResizedCrop((16, 16)))
    for count in BATCHES:
        yield crop(images(count))


@program
def color_jitter(compiled: Compile) -> Iterator[Any]:
    """ColorJitter, whose order of operations is random."""
    jitter = compiled(augmentation.ColorJitter(0.2, 0.3, 0.2, 0.1, p=0.5))
    for count in BATCHES:
        yield jitter(images(count))


@program
def rand_augment(compiled: Compile) -> Iterator[Any]:
    """RandAugment, which chooses two operations at random."""
    augment = compiled(augmentation.auto.RandAugment(n=2, m=10))
    for count in BATCHES:
        yield augment(images(count))


@program
def training_with_augmentation(compiled: Compile) -> Iterator[Any]:
    """A training step of a convolutional classifier with augmentation inside it."""
    augment = nn.Sequential(augmentation.RandomHorizontalFlip(p=0.5), augmentation.ColorJiggle(0.1, 0.1, 0.1, 0.1, p=0.5))
    classifier = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))

    def loss(network: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            x = augment(x)
        return F.cross_entropy(network(x), y)

    optimizer = torch.optim.SGD(classifier.parameters(), 0.1, momentum=0.9)
    batches = ((images(count), torch.randint(0, 3, (count,))) for count in (2, 2, 3, 4))
    yield from training(compiled, classifier, loss, batches, optimizer)


@program
def blurs(compiled: Compile) -> Iterator[Any]:
    """Gaussian, median, bilateral and motion blur, and unsharp masking."""

    @compiled
    def blur(x: torch.Tensor) -> list[torch.Tensor]:
        return [
            kornia.filters.gaussian_blur2d(x, (3, 3), (1.5, 1.5)),
            kornia.filters.median_blur(x, (3, 3)),
            kornia.filters.bilateral_blur(x, (3, 3), 0.1, (1.5, 1.5)),
            kornia.filters.motion_blur(x, 5, 35.0, 0.5),
            kornia.filters.unsharp_mask(x, (3, 3), (1.5, 1.5)),
        ]

    for count in BATCHES:
        yield blur(images(count))


@program
def canny(compiled: Compile) -> Iterator[Any]:
    """Canny's edges, which are followed until none changes."""
    found = compiled(kornia.filters.canny)
    for count in BATCHES:
        yield found(images(count))


@program
def colors(compiled: Compile) -> Iterator[Any]:
    """Conversions between colour spaces and back."""
    c = kornia.color

    @compiled
    def converted(x: torch.Tensor) -> list[torch.Tensor]:
        back = [c.lab_to_rgb(c.rgb_to_lab(x)), c.hsv_to_rgb(c.rgb_to_hsv(x)), c.yuv_to_rgb(c.rgb_to_yuv(x))]
        return [*back, c.rgb_to_grayscale(x), c.rgb_to_hls(x), c.rgb_to_luv(x), c.rgb_to_ycbcr(x), c.rgb_to_xyz(x), c.rgb_to_linear_rgb(x)]

    for count in BATCHES:
        yield converted(images(count))


@program
def enhancement(compiled: Compile) -> Iterator[Any]:
    """Brightness, contrast, hue, saturation, gamma, sharpness, and equalized histograms."""
    e = kornia.enhance

    @compiled
    def enhanced(x: torch.Tensor) -> list[torch.Tensor]:
        adjusted = [e.adjust_brightness(x, 0.2), e.adjust_contrast(x, 0.7), e.adjust_hue(x, 0.1), e.adjust_saturation(x, 0.7), e.adjust_gamma(x, 2.2)]
        return [*adjusted, e.sharpness(x, 0.5), e.posterize(x, 3), e.normalize_min_max(x), e.equalize(x), e.equalize_clahe(x)]

    for count in BATCHES:
        yield enhanced(images(count, size=32))


@program
def warps(compiled: Compile) -> Iterator[Any]:
    """Rotation, affine and perspective warps, resizing, crops and a pyramid."""
    t = kornia.geometry.transform

    @compiled
    def warped(x: torch.Tensor, angle: torch.Tensor, affine: torch.Tensor, homography: torch.Tensor, box: torch.Tensor) -> list[torch.Tensor]:
        turned = [t.rotate(x, angle), t.warp_affine(x, affine, (20, 20)), t.warp_perspective(x, homography, (24, 24))]
        return [*turned, t.resize(x, (12, 12)), t.crop_and_resize(x, box, (8, 8)), t.pyrdown(x), t.hflip(x), t.translate(x, torch.tensor([[1.0, 2.0]]))]

    box = torch.tensor([[[1.0, 1.0], [9.0, 1.0], [9.0, 9.0], [1.0, 9.0]]])
    for count in BATCHES:
        affine, homography = torch.eye(2, 3)[None].repeat(count, 1, 1), torch.eye(3)[None].repeat(count, 1, 1)
        yield warped(images(count), torch.rand(count) * 30, affine, homography, box.repeat(count, 1, 1))


@program
def lie_groups(compiled: Compile) -> Iterator[Any]:
    """Rotations and motions: So3, Se3 and quaternions, their exponentials and logarithms."""

    @compiled
    def moved(v: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
        rotation, quaternion, motion = So3.exp(v), Quaternion.from_axis_angle(v), Se3.exp(w)
        parts = [rotation.matrix(), rotation.log(), rotation * v, (rotation * rotation.inverse()).matrix()]
        return [*parts, (quaternion * quaternion).data, quaternion.matrix(), motion.matrix(), motion.log()]

    for count in BATCHES:
        yield moved(torch.rand(count, 3), torch.rand(count, 6))


@program
def homographies(compiled: Compile) -> Iterator[Any]:
    """Homographies and fundamental matrices of matched points, and boxes moved by a matrix."""
    g = kornia.geometry

    @compiled
    def estimated(p: torch.Tensor, q: torch.Tensor, axis: torch.Tensor, box: torch.Tensor) -> list[torch.Tensor]:
        homography, rotation, fundamental = g.find_homography_dlt(p, q), g.axis_angle_to_rotation_matrix(axis), g.epipolar.find_fundamental(p, q)
        distance, moved = g.epipolar.sampson_epipolar_distance(p, q, fundamental), Boxes.from_tensor(box, mode="xyxy").transform_boxes(rotation)
        return [homography, g.transform_points(homography, p), g.rotation_matrix_to_quaternion(rotation), distance, moved.to_tensor("xyxy")]

    for count in BATCHES:
        box = torch.tensor([[[1.0, 1.0, 6.0, 7.0]]]).repeat(count, 1, 1)
        yield estimated(torch.rand(count, 9, 2), torch.rand(count, 9, 2), torch.rand(count, 3), box)


@program
def ransac(compiled: Compile) -> Iterator[Any]:
    """RANSAC of a homography."""
    estimate = compiled(kornia.geometry.RANSAC("homography", inl_th=2.0, batch_size=64, max_iter=2, max_lo_iters=1))
    for count in BATCHES:
        yield estimate(torch.rand(12 + count, 2) * 100, torch.rand(12 + count, 2) * 100)


@program
def registration(compiled: Compile) -> Iterator[Any]:
    """ImageRegistrator, which trains a similarity between two images."""
    registrator = kornia.geometry.transform.ImageRegistrator("similarity", num_iterations=3, pyramid_levels=2)
    register = compiled(registrator.register)
    for size in (28, 32, 32, 36):
        yield register(images(1, 1, size), images(1, 1, size))


@program
def matching(compiled: Compile) -> Iterator[Any]:
    """Matches of descriptors: nearest, mutual, by ratio."""
    k = kornia.feature

    @compiled
    def matched(a: torch.Tensor, b: torch.Tensor) -> list[Any]:
        return [k.match_nn(a, b), k.match_mnn(a, b), k.match_snn(a, b, 0.9), k.match_smnn(a, b, 0.95)]

    for count in BATCHES:
        yield matched(torch.rand(count + 5, 16), torch.rand(count + 7, 16))


@program
def segmentation_losses(compiled: Compile) -> Iterator[Any]:
    """Losses of images and of segmentation, with their gradients."""
    k = kornia.losses

    @compiled
    def step(x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, labels: torch.Tensor) -> list[Any]:
        x, logits = x.clone().requires_grad_(), logits.clone().requires_grad_()
        loss = k.ssim_loss(x, y, 5) + k.psnr_loss(x, y, 1.0) + k.total_variation(x).sum() + k.charbonnier_loss(x, y).mean()
        loss = loss + k.focal_loss(logits, labels, 0.5, reduction="mean") + k.dice_loss(logits, labels) + k.tversky_loss(logits, labels, 0.5, 0.5)
        loss = loss + k.lovasz_softmax_loss(logits, labels)
        loss.backward()
        return [loss.detach(), x.grad, logits.grad]

    for count in BATCHES:
        yield step(images(count), images(count), torch.randn(count, 4, 24, 24), torch.randint(0, 4, (count, 24, 24)))
