"""Helpers to test programs with hooks on gradients: a model, leaves, what hooks have seen, and three calls compared with eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from agreement import Comparison
from torch import nn

import framejit

BACKENDS = ("eager", "aot_eager")


class State:
    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        self.w, self.v = (torch.randn(3, 3, requires_grad=True) for _ in range(2))
        self.x = torch.randn(5, 3)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.seen: list[Any] = []
        self.scale = 2.0

    def scaled(self, grad):
        return grad * self.scale

    def portrait(self) -> list[Any]:
        leaves = [self.w, self.v, *self.model.parameters()]
        grads = [None if leaf.grad is None else leaf.grad.clone() for leaf in leaves]
        return [[leaf.detach().clone() for leaf in leaves], grads, [item.clone() if isinstance(item, torch.Tensor) else item for item in self.seen]]


def outcome(call: Callable[..., Any], *args: Any) -> Any:
    try:
        return call(*args)
    except (RuntimeError, KeyError) as error:
        return type(error)


def story(call: Callable[..., Any], kind: type[State] = State) -> list[Any]:
    """Return the results of three calls and their backward passes, with the state after each."""
    state, told = kind(), []
    for seed in range(3):
        torch.manual_seed(seed)
        loss = outcome(call, state)
        if isinstance(loss, torch.Tensor) and loss.requires_grad:
            told.append(outcome(loss.backward))
        told += [loss.detach() if isinstance(loss, torch.Tensor) else loss, state.portrait()]
    return told


def does_as_eager(fn: Callable[..., Any], backend: str, kind: type[State] = State) -> dict[str, Any]:
    """Assert that the stories of a compiled function and of eager are equal; return the statistics."""
    framejit.reset()
    Comparison().same(story(framejit.compile(fn, backend=backend), kind), story(fn, kind))
    return framejit.statistics()
