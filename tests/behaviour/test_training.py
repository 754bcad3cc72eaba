"""Training steps compiled whole, while the program changes between them what training rests on: against eager, bit for bit."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import Comparison
from torch import nn

import framejit
from framejit import config

OPTIMIZERS: tuple[Callable[..., torch.optim.Optimizer], ...] = (
    lambda params: torch.optim.SGD(params, lr=0.1),
    lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
    lambda params: torch.optim.AdamW(params, lr=0.01),
    lambda params: torch.optim.Adam(params, lr=0.01, foreach=True),
    lambda params: torch.optim.RMSprop(params, lr=0.01),
    lambda params: torch.optim.Adagrad(params, lr=0.1),
    lambda params: torch.optim.Rprop(params),
)


def step(model: Any, optimizer: Any, x: Any, y: Any, clip: Any, decays: Any) -> Any:
    optimizer.zero_grad()
    out = model(x)
    loss = F.cross_entropy(out, y)
    if decays:
        loss = loss + sum(p.pow(2).sum() for p in model.parameters()) * 1e-3
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return loss, out.argmax(1)


def changes_rate(draw: random.Random, model: Any, optimizer: Any) -> None:
    optimizer.param_groups[0]["lr"] *= 0.5


def freezes(draw: random.Random, model: Any, optimizer: Any) -> None:
    draw.choice(list(model.parameters())).requires_grad_(False)


def thaws(draw: random.Random, model: Any, optimizer: Any) -> None:
    model.requires_grad_(True)


def puts_a_gradient(draw: random.Random, model: Any, optimizer: Any) -> None:
    p = draw.choice(list(model.parameters()))
    p.grad = torch.ones_like(p)


def loads_the_optimizer(draw: random.Random, model: Any, optimizer: Any) -> None:
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


def loads_the_model(draw: random.Random, model: Any, optimizer: Any) -> None:
    model.load_state_dict({name: value * 0.9 for name, value in model.state_dict().items()})


def evaluates(draw: random.Random, model: Any, optimizer: Any) -> None:
    model.train(not model.training)


def changes_decay(draw: random.Random, model: Any, optimizer: Any) -> None:
    optimizer.param_groups[0]["weight_decay"] = 0.01


def scales_a_parameter(draw: random.Random, model: Any, optimizer: Any) -> None:
    with torch.no_grad():
        next(model.parameters()).mul_(0.5)


def zeroes_gradients(draw: random.Random, model: Any, optimizer: Any) -> None:
    model.zero_grad(set_to_none=False)


def listens(draw: random.Random, model: Any, optimizer: Any) -> None:
    p = draw.choice(list(model.parameters()))
    if p.requires_grad:
        p.register_hook(lambda grad: grad * 1.5)


CHANGES = (
    changes_rate, freezes, thaws, puts_a_gradient, loads_the_optimizer, loads_the_model, evaluates, changes_decay, scales_a_parameter,
    zeroes_gradients, listens,
)  # fmt: skip


def trained(seed: int, compile: Callable[[Any], Any]) -> list[Any]:
    """Train a model with changes drawn from a seed; return its state after each step, and as the last item the error that ended it, if one did."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), nn.ReLU(), nn.Dropout(draw.choice([0.0, 0.3])), nn.Linear(6, 3))
    optimizer = draw.choice(OPTIMIZERS)(model.parameters())
    call, seen = compile(step), []
    for _ in range(9):
        x = torch.randn(draw.choice([3, 3, 5]), 4)
        y, clip, decays = torch.randint(0, 3, (x.shape[0],)), draw.choice([None, 1.0]), draw.random() < 0.3
        try:
            loss, found = call(model, optimizer, x, y, clip, decays)
        except RuntimeError as error:  # all parameters are frozen
            return [*seen, str(error)]
        state = [value for of_one in optimizer.state_dict()["state"].values() for value in of_one.values()]
        seen.append(copy.deepcopy([loss.detach(), loss.requires_grad, found, list(model.parameters()), [p.grad for p in model.parameters()], state]))
        draw.choice(CHANGES)(draw, model, optimizer)
    return seen


SEEDS = [*(("eager", seed) for seed in range(12)), *(pytest.param("aot_eager", seed, marks=pytest.mark.slow) for seed in range(12, 15))]


@pytest.mark.parametrize(("backend", "seed"), SEEDS)
def test_changes_between_steps(backend: str, seed: int) -> None:
    framejit.reset()
    with config.replace(recompile_limit=64):
        Comparison().same(trained(seed, lambda fn: framejit.compile(fn, backend=backend)), trained(seed, lambda fn: fn))
    assert framejit.statistics()["fallbacks"] <= 1  # the step that raises


@pytest.mark.parametrize("set_to_none", [True, False])
def test_a_model_that_gets_another_type_between_steps(set_to_none: bool) -> None:
    """Gradients that are views have been given data of the other type then."""
    found = []
    for compile in (lambda f: f, lambda f: framejit.compile(f, backend="eager")):
        torch.manual_seed(0)
        model = nn.Linear(3, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def train(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad(set_to_none=set_to_none)
            loss = model(x).pow(2).sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        train, losses = compile(train), []
        for i in range(5):
            if i == 2:
                model.double()
            losses.append(train(torch.ones(2, 3, dtype=model.weight.dtype) * i))
        found.append((losses, [*model.parameters()], [p.grad for p in model.parameters()]))
    Comparison().same(*found, "the model's type changed")
