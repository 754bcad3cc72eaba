"""Traces that would be too long or too deep: the function that loops or calls itself runs natively, and what is around it, and what it calls, in graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import framejit
from framejit import config

x = torch.arange(6.0).reshape(2, 3)
ROUNDS = 60


@pytest.fixture(autouse=True)
def small_limits() -> Any:
    framejit.reset()
    with config.replace(inline_depth_limit=30, unroll_limit=40):
        yield


def block(a: torch.Tensor) -> torch.Tensor:
    return (a.sin() + 1).cos()


def walk(a: torch.Tensor, rounds: int = ROUNDS) -> torch.Tensor:
    for _ in range(rounds):
        a = a * 0.9
    return a


def wait(a: torch.Tensor) -> torch.Tensor:
    count = 0
    while count < ROUNDS:
        a = block(a)
        count += 1
    return a


def recursive(a: torch.Tensor, depth: int) -> torch.Tensor:
    return a if depth == 0 else recursive(a * 0.9, depth - 1)


def even(a: torch.Tensor, depth: int) -> torch.Tensor:
    return a if depth == 0 else odd(a * 0.9, depth - 1)


def odd(a: torch.Tensor, depth: int) -> torch.Tensor:
    return a if depth == 0 else even(a + 0.1, depth - 1)


def short(a: torch.Tensor) -> torch.Tensor:
    for _ in range(4):
        a = a + 1
    return a


def around_short_ones(a: torch.Tensor) -> torch.Tensor:
    for _ in range(ROUNDS // 4):
        a = short(a)
    return a


class Layers(nn.Module):
    def __init__(self, middle: Callable[..., torch.Tensor], *given: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.middle, self.given = nn.Linear(3, 3), nn.Linear(3, 3), middle, given

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        return self.last(self.middle(self.first(a).relu(), *self.given)).sigmoid()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("middle", [(walk,), (wait,), (around_short_ones,), (recursive, 40), (even, 40)], ids=lambda middle: middle[0].__name__)
def test_what_is_around_stays_compiled(middle: tuple[Any, ...], backend: str) -> None:
    program = Layers(*middle)
    compiled = framejit.compile(program, backend=backend)
    for _ in range(3):
        assert torch.equal(compiled(x), program(x))
    found = framejit.statistics()
    code = middle[0].__code__
    # Not the module, but the function that it calls: in one or two lines, for calls of itself.
    assert all(text.startswith((code.co_name, "even", "odd")) for text in found["uncompiled"]) and found["graph_breaks"], found
    assert found["graphs"] >= 2, found
    report = framejit.explain(program, backend=backend)(x)
    assert {"FJ016", "FJ017"} & {stop.id for stop in report.breaks} and "forward" in report.breaks[0].text


def test_what_it_calls_is_compiled() -> None:
    compiled = framejit.compile(wait, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(x), wait(x))
    found = framejit.statistics()
    assert (found["graphs"], found["fallbacks"]) == (1, 1) and "FJ017" in found["uncompiled"][0]


def test_the_outermost_loop_is_left_to_native_code() -> None:
    def program(a: torch.Tensor) -> torch.Tensor:
        return block(around_short_ones(block(a)))

    compiled = framejit.compile(program, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(x), program(x))
    uncompiled = framejit.statistics()["uncompiled"]
    assert len(uncompiled) == 1 and uncompiled[0].startswith("around_short_ones runs uncompiled")


def test_in_a_generator_and_behind_a_break() -> None:
    def items(a: torch.Tensor) -> Any:
        for number in range(ROUNDS):
            yield a * number

    def program(a: torch.Tensor) -> torch.Tensor:
        a = block(a)
        framejit.graph_break()
        return block(sum(items(a)) + walk(a))

    compiled = framejit.compile(program, backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(x), program(x))


def test_in_one_piece_it_is_an_error_that_names_the_loop() -> None:
    with pytest.raises(framejit.Unsupported, match="FJ017 the trace is too long: walk"):
        framejit.compile(Layers(walk), backend="eager", fullgraph=True)(x)
