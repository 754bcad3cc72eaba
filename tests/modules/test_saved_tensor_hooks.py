"""Hooks on saved tensors that compiled code sets: calls of the hooks, results and gradients, against eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

import framejit


class Watch:
    """Hooks that note what they are given, and change it on the way back."""

    def __init__(self, factor: float = 1.0) -> None:
        self.seen: list[tuple[int, ...]] = []
        self.factor = factor

    def pack(self, tensor: torch.Tensor) -> Any:
        self.seen.append(tuple(tensor.shape))
        return tensor.detach().clone()

    def unpack(self, packed: Any) -> torch.Tensor:
        return packed * self.factor


def around_a_part(x, w, watch):
    with saved_tensors_hooks(watch.pack, watch.unpack):
        y = (x @ w).sin()
    return y.exp().sum(), len(watch.seen) > 0


def nested(x, w, watch):
    with saved_tensors_hooks(lambda t: t.detach() * 2, lambda t: t):
        y = x @ w
        with saved_tensors_hooks(watch.pack, watch.unpack):
            z = y.sin()
        z = z.cos()
    return z.sum(), len(watch.seen)


def on_cpu(x, w, watch):
    with save_on_cpu():
        y = (x @ w).sin()
    return y.exp().sum(), 0


def with_a_checkpoint(x, w, watch):
    with save_on_cpu():
        y = checkpoint(lambda t: (t @ w).sin(), x, use_reentrant=False)
    return y.sum(), 0


def inside_a_checkpoint(x, w, watch):
    def part(t):
        with save_on_cpu():
            return (t @ w).sin()

    return checkpoint(part, x, use_reentrant=False).sum(), 0


def run(program: Callable[..., Any], wrap: Callable[..., Any], whole: bool) -> list[Any]:
    """What three calls give, with the backward pass in the compiled function (`whole`) or behind it."""

    def step(x: torch.Tensor, w: torch.Tensor, watch: Watch) -> Any:
        loss, noted = program(x, w, watch)
        loss.backward()
        return loss, noted

    function = wrap(step if whole else program)
    found: list[Any] = []
    for factor in (1.0, 1.0, 0.5):
        w, watch = torch.linspace(0, 1, 9).reshape(3, 3).requires_grad_(), Watch(factor)
        loss, noted = function(torch.linspace(-1, 1, 6).reshape(2, 3), w, watch)
        if not whole:
            loss.backward()
        assert w.grad is not None
        found += [loss.item(), noted, *w.grad.flatten().tolist()]
    return found


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("program", [around_a_part, nested, on_cpu, with_a_checkpoint, inside_a_checkpoint])
def test_hooks_that_are_set_inside(program: Callable[..., Any], whole: bool, backend: str) -> None:
    expected = run(program, lambda function: function, whole)
    assert run(program, lambda function: framejit.compile(function, backend=backend), whole) == pytest.approx(expected, rel=1e-5)
