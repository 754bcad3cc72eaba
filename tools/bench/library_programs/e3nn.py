"""Programs with e3nn: networks that are equivariant under rotations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import e3nn.math
import e3nn.nn
import torch
from e3nn import o3
from torch import nn

from tools.bench.library_programs.program import Compile, model, program, training

IRREPS = o3.Irreps("8x0e + 4x1o + 2x2e")
POINTS = (4, 4, 5, 7)


def features(turn: int) -> tuple[torch.Tensor]:
    return (IRREPS.randn(POINTS[turn], -1),)


def squares(network: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    return network(*inputs).pow(2).mean()


@model(features, squares)
def linear() -> nn.Module:
    """o3.Linear between irreps"""
    return o3.Linear(IRREPS, "4x0e + 3x1o")


@model(lambda turn: (*features(turn), o3.Irreps("1x0e + 1x1o").randn(POINTS[turn], -1)), squares)
def tensor_product() -> nn.Module:
    """FullyConnectedTensorProduct"""
    return o3.FullyConnectedTensorProduct(IRREPS, "1x0e + 1x1o", "4x0e + 3x1o")


@program
def gated_steps(compiled: Compile) -> Iterator[Any]:
    """A gate with batch norm after a linear layer, trained."""
    gate = e3nn.nn.Gate("8x0e", [torch.tanh], "6x0e", [torch.sigmoid], "4x1o + 2x2e")
    before = o3.Linear(IRREPS, gate.irreps_in)
    network = nn.Sequential(before, e3nn.nn.BatchNorm(before.irreps_out), gate)
    yield from training(compiled, network, squares, map(features, range(4)))


@program
def spherical_harmonics(compiled: Compile) -> Iterator[Any]:
    """Spherical harmonics up to degree three, as a function and as a module."""
    module = o3.SphericalHarmonics([0, 1, 2], True)

    @compiled
    def expanded(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return o3.spherical_harmonics(o3.Irreps.spherical_harmonics(3), x, normalize=True, normalization="component"), module(x)

    for count in POINTS[1:]:
        yield expanded(torch.randn(count, 3))


class Convolution(nn.Module):
    """The convolution of the tutorial: a tensor product with the harmonics of an edge, whose weights a network makes from its length."""

    def __init__(self, inputs: o3.Irreps, harmonics: o3.Irreps, outputs: o3.Irreps | str) -> None:
        super().__init__()
        self.product = o3.FullyConnectedTensorProduct(inputs, harmonics, outputs, shared_weights=False)
        self.radial = e3nn.nn.FullyConnectedNet([3, 16, self.product.weight_numel], torch.relu)

    def forward(self, x: torch.Tensor, ends: tuple[torch.Tensor, torch.Tensor], harmonics: torch.Tensor, lengths: torch.Tensor, count: int) -> torch.Tensor:
        messages = self.product(x[ends[0]], harmonics, self.radial(lengths))
        return torch.zeros(count, messages.shape[1]).index_add_(0, ends[1], messages).div(3.8**0.5)


class Cloud(nn.Module):
    """The network for clouds of points of the tutorial."""

    def __init__(self) -> None:
        super().__init__()
        self.harmonics = o3.Irreps.spherical_harmonics(2)
        self.gate = e3nn.nn.Gate("8x0e", [torch.tanh], "6x0e", [torch.sigmoid], "4x1o + 2x2e")
        self.first = Convolution(self.harmonics, self.harmonics, self.gate.irreps_in)
        self.second = Convolution(self.gate.irreps_out, self.harmonics, "2x0e")

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        distances = torch.cdist(points, points)
        ends = torch.nonzero((distances < 2) & (distances > 0)).T
        edges = points[ends[0]] - points[ends[1]]
        harmonics = o3.spherical_harmonics(self.harmonics, edges, normalize=True, normalization="component")
        lengths = e3nn.math.soft_one_hot_linspace(edges.norm(dim=1), 0.0, 2, 3, basis="smooth_finite", cutoff=True).mul(3**0.5)
        x = self.gate(self.first(harmonics, (ends[0], ends[1]), harmonics, lengths, len(points)))
        return self.second(x, (ends[0], ends[1]), harmonics, lengths, len(points))


@program
def cloud_of_points_steps(compiled: Compile) -> Iterator[Any]:
    """The tutorial's network of a cloud of points, whose edges depend on distances, trained."""
    yield from training(compiled, Cloud(), squares, ((torch.randn(count + 6, 3),) for count in POINTS))


@program
def rotations(compiled: Compile) -> Iterator[Any]:
    """A check of equivariance with matrices of random rotations."""
    layer = o3.Linear(IRREPS, IRREPS)

    @compiled
    def rotated(x: torch.Tensor, rotation: torch.Tensor) -> tuple[torch.Tensor, ...]:
        matrix = IRREPS.D_from_matrix(rotation).T
        return layer(x @ matrix), layer(x) @ matrix

    for count in POINTS[1:]:
        yield rotated(IRREPS.randn(count, -1), o3.rand_matrix())
