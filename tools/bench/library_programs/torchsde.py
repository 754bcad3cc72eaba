"""Programs with torchsde: stochastic differential equations, solved and trained through."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torchsde
from torch import nn

from tools.bench.library_programs.program import Compile, program, training


class Equation(nn.Module):
    """A linear drift, and a diffusion with diagonal noise."""

    noise_type = "diagonal"

    def __init__(self, kind: str = "ito") -> None:
        super().__init__()
        self.sde_type = kind
        self.mu, self.sigma = nn.Linear(3, 3), nn.Linear(3, 3)

    def f(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.mu(y)

    def g(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.sigma(y))


def noise(y: torch.Tensor, **options: Any) -> torchsde.BrownianInterval:
    return torchsde.BrownianInterval(0.0, 1.0, size=tuple(y.shape), entropy=3, **options)


@program
def euler(compiled: Compile) -> Iterator[Any]:
    """sdeint with Euler's method."""
    equation = Equation()
    solve = compiled(lambda y, t: torchsde.sdeint(equation, y, t, dt=0.1, method="euler", bm=noise(y)))
    for count in (4, 5, 6):
        yield solve(torch.randn(count, 3), torch.linspace(0, 1, 3))


@program
def srk_steps(compiled: Compile) -> Iterator[Any]:
    """Training steps through sdeint with a stochastic Runge-Kutta method."""

    def loss(equation: nn.Module, y: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return torchsde.sdeint(equation, y, t, dt=0.2, method="srk", bm=noise(y, levy_area_approximation="space-time")).pow(2).mean()

    yield from training(compiled, Equation(), loss, ((torch.randn(count, 3), torch.linspace(0, 1, 3)) for count in (4, 4, 5, 6)))


@program
def drift_alone(compiled: Compile) -> Iterator[Any]:
    """Only the drift and the diffusion compiled, the solver left alone."""
    equation = Equation()
    equation.f, equation.g = compiled(equation.f), compiled(equation.g)  # type: ignore[method-assign]
    for count in (4, 5, 6):
        y = torch.randn(count, 3)
        yield torchsde.sdeint(equation, y, torch.linspace(0, 1, 3), dt=0.1, method="euler", bm=noise(y))
