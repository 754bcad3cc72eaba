"""Programs with torchdiffeq: ordinary differential equations, solved and trained through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torchdiffeq import odeint, odeint_adjoint, odeint_event

from tools.bench.library_programs.program import Compile, program, training


class Derivative(nn.Module):
    """A network as the derivative, which counts its evaluations."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
        self.evaluations = 0

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.evaluations += 1
        return self.net(y**3)


def solved(compiled: Compile, method: str) -> Iterator[Any]:
    derivative = Derivative()
    solve = compiled(lambda y, t: odeint(derivative, y, t, method=method))
    for count in (4, 5, 6):
        yield solve(torch.randn(count, 2), torch.linspace(0.0, 1.0, 5))
    yield derivative.evaluations


def trained(compiled: Compile, solver: Callable[..., torch.Tensor], method: str) -> Iterator[Any]:
    derivative = Derivative()

    def loss(derivative: nn.Module, start: torch.Tensor, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (solver(derivative, start, t, method=method) - y).abs().mean()

    optimizer = torch.optim.RMSprop(derivative.parameters(), lr=1e-3)
    batches = ((torch.randn(count, 2), torch.linspace(0.0, 1.0, 4), torch.randn(4, count, 2)) for count in (4, 4, 5, 6))
    yield from training(compiled, derivative, loss, batches, optimizer)
    yield derivative.evaluations


@program
def dopri5(compiled: Compile) -> Iterator[Any]:
    """odeint with dopri5, whose steps depend on the error."""
    return solved(compiled, "dopri5")


@program
def rk4_steps(compiled: Compile) -> Iterator[Any]:
    """Training steps through odeint with rk4."""
    return trained(compiled, odeint, "rk4")


@program
def adjoint_steps(compiled: Compile) -> Iterator[Any]:
    """Training steps through odeint_adjoint with dopri5."""
    return trained(compiled, odeint_adjoint, "dopri5")


@program
def derivative_alone(compiled: Compile) -> Iterator[Any]:
    """Only the derivative compiled, the solver left alone."""
    derivative = Derivative()
    call = compiled(derivative)
    for count in (4, 5, 6):
        yield odeint(call, torch.randn(count, 2), torch.linspace(0.0, 1.0, 5))
    yield derivative.evaluations


@program
def events(compiled: Compile) -> Iterator[Any]:
    """odeint_event of a falling ball."""

    class Ball(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gravity = nn.Parameter(torch.tensor([9.8]))

        def forward(self, t: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
            position, velocity = state
            return velocity, -self.gravity * torch.ones_like(position)

    ball = Ball()

    @compiled
    def fall(height: torch.Tensor) -> Any:
        state = (height, torch.zeros(1))
        return odeint_event(
            ball, state, torch.tensor(0.0), event_fn=lambda t, state: state[0], reverse_time=False, atol=1e-6, rtol=1e-6, odeint_interface=odeint
        )

    for height in (1.0, 2.0, 3.0):
        yield fall(torch.tensor([height]))
