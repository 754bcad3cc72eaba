"""Functions of `math` of a number that changes from call to call: what they give is computed in each call, and compiled once."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

import framejit


def root(step: int, x: torch.Tensor) -> torch.Tensor:
    return x / math.sqrt(1 - 0.9**step)


def cosine(step: int, x: torch.Tensor) -> torch.Tensor:
    return x * (0.5 * (1 + math.cos(math.pi * step / 100)) + math.sin(step))


def exponential(step: int, x: torch.Tensor) -> torch.Tensor:
    return x * math.exp(-5 * (1 - 0.9**step)) * math.exp(-step / 10)


def logarithm(step: int, x: torch.Tensor) -> torch.Tensor:
    return x + (math.log(step) + 1) / (2 + math.log(step))


def power(step: int, x: torch.Tensor) -> torch.Tensor:
    return x * (1.0 - math.pow(step, -0.8)) + math.pow(0.5, step)


@pytest.mark.parametrize("program", [root, cosine, exponential, logarithm, power])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_of_a_step(program: Callable[..., torch.Tensor], backend: str) -> None:
    framejit.reset()
    compiled = framejit.compile(program, backend=backend)
    for step in range(1, 8):
        assert torch.equal(compiled(step, torch.ones(3)), program(step, torch.ones(3)))
    assert framejit.statistics()["graphs"] == 2


@pytest.mark.parametrize("function, last", [(math.sqrt, -1), (math.log, 0), (math.exp, 1000)])
def test_of_a_number_for_which_there_is_none(function: Callable[[float], float], last: int) -> None:
    def program(step: int, x: torch.Tensor) -> torch.Tensor:
        return x * function(step / 1)

    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    for step in (1, 2, 3):
        assert torch.equal(compiled(step, torch.ones(3)), program(step, torch.ones(3)))
    with pytest.raises((ValueError, OverflowError)) as expected:
        program(last, torch.ones(3))
    with pytest.raises(type(expected.value), match=str(expected.value)):
        compiled(last, torch.ones(3))
