"""Checkpoints of functions that change tensors in place, BatchNorm's statistics above all, against eager."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import framejit

BACKENDS = pytest.mark.parametrize("backend", [pytest.param("eager", marks=pytest.mark.slow), "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])


class Block(nn.Module):
    """Two convolutions with BatchNorms, as residual networks have them: the second may be another kind of norm, or the first anew."""

    def __init__(self, norm: Callable[[int], nn.Module] = nn.BatchNorm2d, shared: bool = False) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
        self.norm, self.act = nn.BatchNorm2d(3), nn.ReLU(inplace=True)
        self.other = self.norm if shared else norm(3)

    def forward(self, x: Any) -> Any:
        y = self.other(self.second(self.act(self.norm(self.first(x)))))
        y += x
        return self.act(y)


class Net(nn.Module):
    """Checkpointed blocks, called by `ways`."""

    def __init__(self, ways: Callable[..., Any], **kinds: Any) -> None:
        super().__init__()
        self.ways = ways
        self.blocks = nn.ModuleList([Block(**kinds), Block(**kinds)])
        self.head = nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        return self.ways(self, x)


def in_turn(net, x):
    for block in net.blocks:
        x = checkpoint(block, x, use_reentrant=False)
    return net.head(x.mean((2, 3))).square().sum()


def reentrant(net, x):
    return net.head(checkpoint(net.blocks[0], net.blocks[1](x), use_reentrant=True).mean((2, 3))).square().sum()


def nested(net, x):
    return checkpoint(lambda y: checkpoint(net.blocks[0], y, use_reentrant=False) * 2, net.blocks[1](x), use_reentrant=False).mean()


def called_twice(net, x):
    return checkpoint(net.blocks[0], x, use_reentrant=False).mean() * checkpoint(net.blocks[0], x + 1, use_reentrant=False).mean()


def functional(net, x):
    norm = net.blocks[0].norm
    def part(y):
        return F.batch_norm((y * net.head.weight.sum()).sin(), norm.running_mean, norm.running_var, training=True).exp()

    return checkpoint(part, x, use_reentrant=False).sum()


def behind_the_last_use(net, x):
    def part(y):
        y = y.exp() * net.head.weight.sum()
        net.blocks[0].norm.num_batches_tracked.add_(1)
        return y

    return checkpoint(part, x, use_reentrant=False).sum()


def without_gradient(net, x):
    with torch.no_grad():
        x = in_turn(net, x)
    return x + net.head.weight.sum()


def frozen(net, x):
    net.blocks.requires_grad_(False)
    return checkpoint(lambda y: net.head(net.blocks[0](y).mean((2, 3))).square(), x, use_reentrant=False).sum()


def behind(net: nn.Module, x: torch.Tensor, wrap: Callable[..., Any]) -> None:
    """Two calls of the compiled model before the backward passes, in which statistics change once more."""
    run = wrap(net)
    for step in range(2):
        results = [run(x + step), run(x - step)]
        for result in results:
            result.backward()


def inside(net: nn.Module, x: torch.Tensor, wrap: Callable[..., Any]) -> None:
    def step(x: torch.Tensor) -> None:
        net(x).backward()

    run = wrap(step)
    for _ in range(2):
        run(x)


def state_after(train: Callable[..., None], net: nn.Module, wrap: Callable[..., Any]) -> list[torch.Tensor | None]:
    torch.manual_seed(0)
    train(net, torch.randn(2, 3, 6, 6), wrap)
    return [*net.state_dict().values(), *[parameter.grad for parameter in net.parameters()]]


WHOLE = [(in_turn, {}, behind), (in_turn, {}, inside), (reentrant, {}, behind), (functional, {}, inside), (without_gradient, {}, behind)]
SPLIT = [
    (nested, {}, behind),
    (called_twice, {}, behind),
    (behind_the_last_use, {}, inside),
    (frozen, {}, behind),
    (in_turn, {"shared": True}, behind),
    (in_turn, {"norm": lambda size: nn.InstanceNorm2d(size, track_running_stats=True)}, inside),
    (in_turn, {"norm": lambda size: nn.BatchNorm2d(size, momentum=None)}, behind),
]


@BACKENDS
@pytest.mark.parametrize(("ways", "kinds", "train", "breaks"), [(*case, 0) for case in WHOLE] + [(*case, None) for case in SPLIT])
def test_training(ways: Callable[..., Any], kinds: dict[str, Any], train: Callable[..., None], breaks: int | None, backend: str) -> None:
    framejit.reset()
    net = Net(ways, **kinds)
    copied = copy.deepcopy(net)
    expected = state_after(train, net, lambda function: function)
    found = state_after(train, copied, lambda function: framejit.compile(function, backend=backend))
    for left, right in zip(expected, found, strict=True):
        assert (left is None) == (right is None)
        assert left is None or torch.allclose(left, right, rtol=1e-4, atol=1e-5)
    if breaks is not None:
        assert framejit.statistics()["graph_breaks"] == breaks, framejit.statistics()["reasons"]


def test_changes_of_what_the_function_computes_itself() -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> Any:
        def part(y: torch.Tensor) -> torch.Tensor:
            y = (y @ w).sin().add_(1)
            y[:, 0].mul_(2)
            return F.relu(y, inplace=True).mul(w.sum())

        loss = checkpoint(part, x, use_reentrant=False).sum()
        loss.backward()
        return loss.detach(), w.grad

    def run(function: Callable[..., Any]) -> Any:
        return function(torch.linspace(-1, 1, 12).reshape(3, 4), torch.linspace(0, 1, 16).reshape(4, 4).requires_grad_())

    framejit.reset()
    for left, right in zip(run(program), run(framejit.compile(program, backend="aot_eager")), strict=True):
        assert torch.allclose(left, right)
    assert framejit.statistics()["graph_breaks"] == 0, framejit.statistics()["reasons"]
