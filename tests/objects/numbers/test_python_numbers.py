"""Python's functions of numbers out of tensors are nodes; where one fails, the call runs uncompiled."""

from __future__ import annotations

import math
import random

import pytest
import torch
from agreement import Comparison, tried

import framejit

BACKENDS = ("eager", "aot_eager")
PROGRAMS = {
    "questions": lambda x: (x + 1, [f(x.sum().item()) for f in (math.isnan, math.isinf, math.isfinite)], math.isnan(x.max().item() * 2)),
    "perplexity": lambda x: x * math.exp(x.mean().item()), "norm": lambda x: x * x.norm().item() ** 2, "root": lambda x: x * math.sqrt(x.sum().item()),
    "quotient": lambda x: (x * (x.sum().item() / x.max().item()), (x > 0).sum().item() / (x > 1).sum().item()),
    "int": lambda x: x.new_zeros(3) + int(x.sum().item() * 10),
    "whole": lambda x: (round(x.sum().item()), math.floor(x.sum().item()), x + math.ceil(x.max().item())),
    "pow": lambda x: x * math.pow(x.sum().item(), 0.5) + x.sum().item() ** -1, "remainder": lambda x: x * (x.sum().item() % 0.75) + x.sum().item() // 2,
    "rounded": lambda x: x * round(x.mean().item(), 1) + max(0.5, x.mean().item()) + abs(x.min().item()), "log": lambda x: (math.log(x.sum().item()), x + 1),
    "sum": lambda x: x * sum([x.mean().item(), 1, x.max().item()]), "chain": lambda x: x * (1 / (1 + math.exp(-x.mean().item()))),
}  # fmt: skip
DATA = ([1.0, 2.0, 0.25], [0.5, 3.5, -0.125], [0.0, 0.0, 0.0], [-3.0, 1.0, -800.0], [float("nan"), 1.0, 2.0], [1e200, 2.0, 1e308], [1e9, float("inf"), 3.0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_errors_are_pythons(name: str, backend: str) -> None:
    program = PROGRAMS[name]
    framejit.reset()
    compiled = framejit.compile(program, backend=backend, fullgraph=True)
    for numbers in DATA:
        x = torch.tensor(numbers, dtype=torch.float64)
        Comparison().same(tried(program, x), tried(compiled, x), str(numbers))
    assert framejit.statistics()["graph_breaks"] == 0


def refused(x: torch.Tensor) -> torch.Tensor:
    loss = x.mean()
    if not math.isfinite(loss.item()):
        raise ValueError(f"the loss is {loss.item()}")
    return x * loss


def test_a_branch_that_raises_is_checked_in_the_graph() -> None:
    framejit.reset()
    compiled = framejit.compile(refused, backend="aot_eager", fullgraph=True)
    for numbers in DATA:
        x = torch.tensor(numbers, dtype=torch.float64)
        Comparison().same(tried(refused, x), tried(compiled, x), str(numbers))
    assert framejit.statistics()["graphs"] == 1


def test_floats_that_vary_are_finite() -> None:
    framejit.reset()
    program = lambda x, t: (x * t, math.isnan(t), math.isinf(t * 2), math.isfinite(t))
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for value in (0.5, 1.5, 2.5, 3.25, float("inf"), 1.0, 1e308, float("nan")):
        Comparison().same(program(torch.ones(2), value), compiled(torch.ones(2), value), str(value))
    assert framejit.statistics()["graphs"] <= 5


@pytest.mark.slow
def test_with_inductor() -> None:
    framejit.reset()
    program = lambda x: x * math.exp(x.mean().item()) + int(x.sum().item())
    compiled = framejit.compile(program, backend="inductor", fullgraph=True)
    for numbers in DATA[:3]:
        x = torch.tensor(numbers, dtype=torch.float64)
        torch.testing.assert_close(compiled(x), program(x))


def test_an_index_is_drawn_in_the_graph() -> None:
    """A failing check draws nothing twice; the index is Python's."""
    framejit.reset()
    program = lambda x: x[int(random.random() * 3)] * math.log(random.random() - 0.3 + x.sum().item())
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for seed in range(12):
        random.seed(seed)
        expected, state = tried(program, torch.arange(3.0) / 6), random.getstate()
        random.seed(seed)
        Comparison().same(expected, tried(compiled, torch.arange(3.0) / 6))
        assert random.getstate() == state


@pytest.mark.only_eager("AOTAutograd's graphs change their inputs at their end, after whatever may fail")
def test_behind_a_change_it_is_computed_natively() -> None:
    """Nothing could be taken back there if it failed."""
    framejit.reset()

    def program(x: torch.Tensor) -> float:
        x.mul_(2)
        return math.exp(x.sum().item())

    compiled = framejit.compile(program, backend="eager")
    x, y = torch.ones(2), torch.ones(2)
    assert program(x) == compiled(y) and torch.equal(x, y)
    assert framejit.statistics()["graph_breaks"] == 1
    with pytest.raises(OverflowError):
        compiled(torch.full((2,), 1000.0))
