"""Programs with BoTorch: acquisition functions and posteriors of Bayesian optimisation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from botorch.acquisition import LogExpectedImprovement, qExpectedImprovement
from botorch.models import SingleTaskGP
from botorch.sampling import SobolQMCNormalSampler
from botorch.test_functions import Ackley, Branin, Hartmann
from botorch.utils.multi_objective.pareto import is_non_dominated
from botorch.utils.transforms import normalize, standardize, unnormalize
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import nn

from tools.bench.library_programs.program import Compile, program, training

# Processes are fitted in double precision, as the documentation advises.
torch.set_default_dtype(torch.float64)
CANDIDATES = (6, 8, 6)


def process() -> SingleTaskGP:
    x = torch.rand(8, 2)
    return SingleTaskGP(x, torch.sin(x.sum(-1, keepdim=True) * 4))


def with_gradients(compiled: Compile, acquisition: nn.Module, together: int) -> Iterator[Any]:
    """Values of candidates and their gradients, as an optimizer of the acquisition asks for them."""

    @compiled
    def evaluate(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = x.detach().requires_grad_(True)
        value = acquisition(x).sum()
        return value.detach(), torch.autograd.grad(value, x)[0]

    for count in CANDIDATES:
        yield evaluate(torch.rand(count, together, 2))


@program
def expected_improvement(compiled: Compile) -> Iterator[Any]:
    """LogExpectedImprovement and its gradients."""
    return with_gradients(compiled, LogExpectedImprovement(process().eval(), best_f=0.2), 1)


@program
def sampled_improvement(compiled: Compile) -> Iterator[Any]:
    """qExpectedImprovement of pairs of candidates, with quasi-random samples, and its gradients."""
    sampler = SobolQMCNormalSampler(torch.Size([16]), seed=1)
    return with_gradients(compiled, qExpectedImprovement(process().eval(), best_f=0.2, sampler=sampler), 2)


@program
def fitting_steps(compiled: Compile) -> Iterator[Any]:
    """Steps that fit a SingleTaskGP with its priors."""
    fitted = process()
    marginal, optimizer = ExactMarginalLogLikelihood(fitted.likelihood, fitted), torch.optim.Adam(fitted.parameters(), lr=1e-3)
    yield from training(compiled, fitted, lambda gp: -marginal(gp(*gp.train_inputs), gp.train_targets), [()] * 4, optimizer)


@program
def posterior(compiled: Compile) -> Iterator[Any]:
    """Mean, variance and samples of a posterior."""
    fitted = process().eval()

    @compiled
    def at(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = fitted.posterior(x)
        return found.mean, found.variance, found.rsample(torch.Size([2]))

    for count in CANDIDATES:
        yield at(torch.rand(count, 2))


@program
def test_functions(compiled: Compile) -> Iterator[Any]:
    """Functions to be optimised, and the transforms and the Pareto front of their values."""
    branin, hartmann, ackley = Branin(), Hartmann(), Ackley(dim=2)
    bounds = torch.stack([torch.zeros(2), torch.ones(2) * 3])

    @compiled
    def computed(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [branin(x), hartmann(y), ackley(x), normalize(x, bounds), unnormalize(x, bounds), standardize(x), is_non_dominated(x)]

    for count in CANDIDATES:
        yield computed(torch.rand(count, 2), torch.rand(count, 6))
