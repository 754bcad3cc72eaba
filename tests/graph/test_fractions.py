"""Comparisons of drawn fractions with numbers that none of them reaches split no graph, and the numbers are drawn all the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from agreement import Comparison

import framejit

BACKENDS = ("eager", "aot_eager")


class Settings:
    never, always, half = 0.0, 1.0, 0.5


def skips_layers(x: torch.Tensor) -> torch.Tensor:
    for i in range(3):
        if torch.rand([]) < Settings.never:
            continue
        x = x + i
    return x


def changed(x: torch.Tensor, change: Callable[[torch.Tensor, torch.Tensor], Any], at: Any = ...) -> Any:
    drawn = torch.rand(1) if at is ... else torch.rand(3)
    answer = drawn[at] < 1.0
    change(drawn, answer)
    return x if answer else x + 1


def changed_before(x: torch.Tensor) -> Any:
    drawn = torch.rand(3)
    drawn[1:].mul_(0).add_(7)
    return x if drawn[1] < 1.0 else x + 1


WHOLE: dict[str, Callable[[torch.Tensor], Any]] = {
    "never": lambda x: x if torch.rand([]) < 0.0 else x + 1,
    "always": lambda x: x if torch.rand(1) < 1.0 else x + 1,
    "at least": lambda x: x if torch.rand(1) >= 1 else x + 1,
    "more": lambda x: x if torch.rand(1) > Settings.always else x + 1,
    "mirrored": lambda x: x if Settings.never > torch.rand(1) else x + 1,
    "infinity": lambda x: x if torch.rand(1) < float("inf") else x + 1,
    "item": lambda x: x if torch.rand(2, 2)[0][1].item() < Settings.never else x + 1,
    "rand_like": lambda x: x if torch.rand_like(x)[0, 0] < Settings.never else x + 1,
    "layers": skips_layers,
    "random": lambda x: x if random.random() < Settings.never else x + 1,
    "uniform": lambda x: x if Settings.always > random.uniform(0, 1) else x + 1,
    "of a generator": lambda x: x * 2 if random.Random(3).random() <= Settings.always else x + 1,
    "numpy": lambda x: x if np.random.rand() < 1.0 else x + 1,
    "numpy's uniform": lambda x: x if np.random.uniform(0, 1.0) >= Settings.never else x + 1,
    "torch.Generator": lambda x: x if torch.rand(1, generator=torch.Generator().manual_seed(3)) < Settings.never else x + 1,
}
SPLIT: dict[str, Callable[[torch.Tensor], Any]] = {
    "half": lambda x: x if torch.rand(1) < Settings.half else x + 1,
    "random": lambda x: x if random.random() < Settings.half else x + 1,
    "zero": lambda x: x if torch.rand(1) <= 0.0 else x + 1,
    "nearly zero": lambda x: x if torch.rand(1) <= -1e-60 else x + 1,
    "no number": lambda x: x if torch.rand(1) < float("nan") else x + 1,
    "16 bits": lambda x: x if torch.rand(1, dtype=torch.bfloat16) < 1.0 else x + 1,
    "wider": lambda x: x if random.uniform(0, 2) < 1.0 else x + 1,
    "changed draw": lambda x: changed(x, lambda drawn, answer: drawn.add_(9)),
    "changed answer": lambda x: changed(x, lambda drawn, answer: answer.logical_not_()),
    "changed view": changed_before,
    "of many": lambda x: changed(x, lambda drawn, answer: drawn[1:].add_(5), 0),
}


def agree(program: Callable[[torch.Tensor], Any], backend: str, **options: Any) -> Any:
    framejit.reset()
    x, found = torch.randn(2, 3), []
    for function in (program, framejit.compile(program, backend=backend, **options)):
        torch.manual_seed(3)
        random.seed(3)
        np.random.seed(3)
        found.append([(function(x), torch.rand(1), random.random(), np.random.rand()) for _ in range(4)])
    Comparison().same(*found)
    return framejit.statistics()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", WHOLE)
def test_what_is_known_of_all_fractions_splits_nothing(name: str, backend: str) -> None:
    counts = agree(WHOLE[name], backend)
    assert (counts["graphs"], counts["graph_breaks"], counts["recompiles"]) == (1, 0, 0), counts["reasons"]


@pytest.mark.parametrize("name", SPLIT)
def test_what_depends_on_the_fraction_is_asked(name: str) -> None:
    assert agree(SPLIT[name], "eager", branches="break")["graph_breaks"] == 1


@pytest.mark.parametrize("draw", [random.random, lambda: torch.rand(1)])
def test_a_probability_that_changes_compiles_again(draw: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, x = framejit.compile(lambda x: x if draw() < Settings.never else x + 1, backend="eager"), torch.ones(2)
    assert torch.equal(compiled(x), x + 1)
    monkeypatch.setattr(Settings, "never", 1.5)
    assert compiled(x) is x
    monkeypatch.setattr(Settings, "never", -2.0)
    assert torch.equal(compiled(x), x + 1)
