"""Programs with GPyTorch and linear_operator: Gaussian processes, exact and variational."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import gpytorch
import torch
from gpytorch import kernels
from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
from gpytorch.likelihoods import BernoulliLikelihood, GaussianLikelihood, Likelihood, MultitaskGaussianLikelihood
from linear_operator import to_linear_operator
from linear_operator.operators import DiagLinearOperator, RootLinearOperator
from torch import nn

from tools.bench.library_programs.program import Compile, program, training


def data(count: int = 20, dimensions: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """A noisy sine."""
    x = torch.linspace(0, 1, count) if dimensions is None else torch.rand(count, dimensions)
    return x, torch.sin((x if dimensions is None else x.sum(-1)) * (2 * math.pi)) + torch.randn(count) * 0.2


class Exact(gpytorch.models.ExactGP):
    """The exact process of the first tutorial."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood: Likelihood, kernel: kernels.Kernel | None = None) -> None:
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = kernel or kernels.ScaleKernel(kernels.RBFKernel())

    def forward(self, x: torch.Tensor) -> MultivariateNormal:
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


def fitted(compiled: Compile, process: gpytorch.models.ExactGP, x: torch.Tensor, y: torch.Tensor, rate: float = 0.1) -> Iterator[Any]:
    """Steps that fit a process to its training data."""
    likelihood = process.likelihood.train()
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, process)
    optimizer = torch.optim.Adam(process.parameters(), lr=rate)
    yield from training(compiled, process, lambda process, x, y: -marginal(process(x), y), [(x, y)] * 4, optimizer)


@program
def exact(compiled: Compile) -> Iterator[Any]:
    """An exact process with an RBF kernel, fitted."""
    x, y = data()
    yield from fitted(compiled, Exact(x, y, GaussianLikelihood()), x, y)


@program
def matern(compiled: Compile) -> Iterator[Any]:
    """An exact process with the sum of a Matern and a linear kernel over three dimensions, fitted."""
    x, y = data(20, 3)
    kernel = kernels.ScaleKernel(kernels.MaternKernel(nu=2.5, ard_num_dims=3)) + kernels.LinearKernel()
    yield from fitted(compiled, Exact(x, y, GaussianLikelihood(), kernel), x, y)


@program
def predictions(compiled: Compile) -> Iterator[Any]:
    """Predictions of an exact process with their confidence regions."""
    process = Exact(*data(), GaussianLikelihood()).eval()
    likelihood = process.likelihood.eval()

    @compiled
    def predict(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.no_grad(), gpytorch.settings.fast_pred_var():
            predicted = likelihood(process(x))
            return predicted.mean, *predicted.confidence_region()

    for count in (7, 11, 13):
        yield predict(torch.linspace(0, 1, count))


class Variational(gpytorch.models.ApproximateGP):
    """A sparse variational process with inducing points that are learned."""

    def __init__(self, points: torch.Tensor) -> None:
        distribution = gpytorch.variational.CholeskyVariationalDistribution(points.size(0))
        super().__init__(gpytorch.variational.VariationalStrategy(self, points, distribution, learn_inducing_locations=True))
        self.mean_module, self.covar_module = gpytorch.means.ConstantMean(), kernels.ScaleKernel(kernels.RBFKernel())

    def forward(self, x: torch.Tensor) -> MultivariateNormal:
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


@program
def variational(compiled: Compile) -> Iterator[Any]:
    """A sparse variational process, trained on batches of several sizes."""
    x, y = data(40, 2)
    process, likelihood = Variational(x[:8].clone()), GaussianLikelihood()
    bound = gpytorch.mlls.VariationalELBO(likelihood, process, num_data=40)
    optimizer = torch.optim.Adam([*process.parameters(), *likelihood.parameters()], lr=0.01)
    batches = ((x[:count], y[:count]) for count in (10, 10, 12, 15))
    yield from training(compiled, process, lambda process, x, y: -bound(process(x), y), batches, optimizer)


@program
def classification(compiled: Compile) -> Iterator[Any]:
    """A variational process of two classes: a training step, then predictions, in one function."""
    x, y = data(40, 2)
    process, likelihood = Variational(x[:8].clone()), BernoulliLikelihood()
    optimizer = torch.optim.Adam(process.parameters(), lr=0.01)
    bound = gpytorch.mlls.VariationalELBO(likelihood, process, num_data=40)

    @compiled
    def step(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        process.train()
        likelihood.train()
        optimizer.zero_grad()
        loss = -bound(process(x), y)
        loss.backward()
        optimizer.step()
        process.eval()
        likelihood.eval()
        with torch.no_grad():
            return loss.detach(), likelihood(process(x)).mean

    for count in (10, 10, 12, 15):
        yield step(x[:count], (y[:count] > 0).float())
    yield process, optimizer


class Multitask(gpytorch.models.ExactGP):
    """A process of two tasks."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood: Likelihood) -> None:
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.MultitaskMean(gpytorch.means.ConstantMean(), num_tasks=2)
        self.covar_module = kernels.MultitaskKernel(kernels.RBFKernel(), num_tasks=2, rank=1)

    def forward(self, x: torch.Tensor) -> MultitaskMultivariateNormal:
        return MultitaskMultivariateNormal(self.mean_module(x), self.covar_module(x))


@program
def multitask(compiled: Compile) -> Iterator[Any]:
    """An exact process of two tasks, fitted."""
    x = torch.linspace(0, 1, 12)
    y = torch.stack([torch.sin(x * 6), torch.cos(x * 6)], -1)
    yield from fitted(compiled, Multitask(x, y, MultitaskGaussianLikelihood(num_tasks=2)), x, y)


class Deep(gpytorch.models.ExactGP):
    """A process over what a network computes, with a kernel that is interpolated on a grid (KISS-GP)."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood: Likelihood) -> None:
        super().__init__(x, y, likelihood)
        self.network = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
        self.scale, self.mean_module = gpytorch.utils.grid.ScaleToBounds(-1.0, 1.0), gpytorch.means.ConstantMean()
        inner = kernels.ScaleKernel(kernels.RBFKernel(ard_num_dims=2))
        self.covar_module = kernels.GridInterpolationKernel(inner, num_dims=2, grid_size=10)

    def forward(self, x: torch.Tensor) -> MultivariateNormal:
        z = self.scale(self.network(x))
        return MultivariateNormal(self.mean_module(z), self.covar_module(z))


@program
def deep_kernel(compiled: Compile) -> Iterator[Any]:
    """Deep kernel learning with an interpolated kernel, fitted."""
    x, y = data(20, 3)
    yield from fitted(compiled, Deep(x, y, GaussianLikelihood()), x, y, rate=0.01)


@program
def linear_operators(compiled: Compile) -> Iterator[Any]:
    """Products, solutions and determinants of linear_operator's operators."""

    @compiled
    def computed(a: torch.Tensor, diagonal: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        operator = to_linear_operator(a @ a.T) + DiagLinearOperator(diagonal)
        return [operator @ b, operator.diagonal(), operator.solve(b), operator.logdet(), RootLinearOperator(a).to_dense()]

    for size in (5, 6, 7):
        yield computed(torch.randn(size, size), torch.rand(size) + 1, torch.randn(size, 2))
