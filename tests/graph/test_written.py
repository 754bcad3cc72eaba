"""Programs see what an inner graph has written to tensors from outside of it, no matter whether the write increments the tensor's version."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import framejit

IN_THE_PLACE_OF_EAGER = ("eager", "aot_eager")


def in_place(y: torch.Tensor) -> None:
    y.sub_(9)


def by_data(y: torch.Tensor) -> None:
    y.data.sub_(9)


def in_a_list(y: torch.Tensor) -> None:
    torch._foreach_sub_([y], 9.0)


def statistics(y: torch.Tensor) -> None:
    F.batch_norm(torch.stack([y, y - 90]).detach().clone(), y, torch.ones(1), training=True)


WRITES = [in_place, by_data, in_a_list, statistics]


class Writing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, t: torch.Tensor, y: torch.Tensor, write: Any) -> torch.Tensor:
        write(y)
        return t * 2

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return gradients[0] * 2, None, None


class WritingLater(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, t: torch.Tensor, y: torch.Tensor, write: Any) -> torch.Tensor:
        ctx.y, ctx.write = y, write
        return t * 2

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        ctx.write(ctx.y)
        return gradients[0] * 2, None, None


def in_a_checkpoint(w: torch.Tensor, y: torch.Tensor, write: Any) -> torch.Tensor:
    def run(t: torch.Tensor) -> torch.Tensor:
        write(y)
        return t * 2

    return checkpoint(run, w, use_reentrant=False)


def in_a_nested_checkpoint(w: torch.Tensor, y: torch.Tensor, write: Any) -> torch.Tensor:
    return checkpoint(lambda t: in_a_checkpoint(t, y, write), w, use_reentrant=False)


def in_a_function(w: torch.Tensor, y: torch.Tensor, write: Any) -> torch.Tensor:
    return Writing.apply(w, y, write)


def in_a_backward(w: torch.Tensor, y: torch.Tensor, write: Any) -> torch.Tensor:
    found = WritingLater.apply(w, y, write)
    (gradient,) = torch.autograd.grad(found.sum(), [w])
    return gradient


def in_a_branch(w: torch.Tensor, y: torch.Tensor, write: Any) -> torch.Tensor:
    def run(t: torch.Tensor) -> torch.Tensor:
        write(y)
        return t * 2

    return torch.cond(w.sum() > 0, run, lambda t: t + 1, (w.detach(),))


BRANCHES = [(in_a_branch, write) for write in (by_data, in_a_list, statistics)]
if torch.__version__ < "2.13":  # whose cond refuses branches that write by `.data`
    del BRANCHES[0]
PLACES = [in_a_checkpoint, in_a_nested_checkpoint, in_a_function, in_a_backward]


@pytest.mark.parametrize(("place", "write"), [*itertools.product(PLACES, WRITES), *BRANCHES])
def test_tensors_from_around_an_inner_graph(place: Callable[..., torch.Tensor], write: Callable[[torch.Tensor], None]) -> None:
    def of_an_input(w: torch.Tensor, y: torch.Tensor) -> Any:
        before = y.item()
        z = place(w, y, write).detach()
        return before, y.item(), z * (before + 1), z * (y.item() + 1), (z if y > 0 else -z)

    def of_an_intermediate(w: torch.Tensor, y: torch.Tensor) -> Any:
        copy = y.clone()
        z = place(w, copy, write).detach()
        return z if copy > 0 else -z, copy.item(), copy

    def unused(w: torch.Tensor, y: torch.Tensor) -> Any:
        place(w, y, write)
        return w.detach() + 1

    for function in (of_an_input, of_an_intermediate, unused):
        compiled = framejit.compile(function, backend="eager")
        for value in (1.0, 20.0):
            left, right = torch.tensor([value]), torch.tensor([value])
            w = torch.ones(1, requires_grad=True)
            torch.testing.assert_close((compiled(w, right), right), (function(w, left), left))


@pytest.mark.parametrize("write", [in_place, by_data, in_a_list])
@pytest.mark.parametrize("place", [in_a_checkpoint, in_a_function])
def test_constants_from_around_an_inner_graph(place: Callable[..., torch.Tensor], write: Callable[[torch.Tensor], None]) -> None:
    def function(w: torch.Tensor) -> Any:
        y = torch.tensor(3.0)
        before = y.item()
        z = place(w, y, write).detach()
        return before, y.item(), z * y.item(), y, (z if y == -6 else -z)

    compiled = framejit.compile(function, backend="eager")
    for _ in range(2):
        w = torch.ones(1, requires_grad=True)
        torch.testing.assert_close(compiled(w), function(w))


def test_a_norm_in_a_checkpoint() -> None:
    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(1, affine=False)

        def forward(self, x: torch.Tensor) -> Any:
            before = self.norm.running_mean.item()
            y = checkpoint(self.norm, x, use_reentrant=False)
            return before, self.norm.running_mean.item(), y * (before + 1), (y if self.norm.running_mean > 0.9 else -y)

    eager, module = Norm(), Norm()
    compiled = framejit.compile(module, backend="eager")
    for number in range(4):
        x = torch.tensor([[1.0], [9.0]]) + number
        torch.testing.assert_close(compiled(x), eager(x))
