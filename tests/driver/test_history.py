"""Compiled functions and their resume functions learn together which numbers vary from call to call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import Comparison

import framejit


class Counter:
    def __init__(self) -> None:
        self.steps = 0
        self.rate = 1.0


def counts_of(make: Callable[[], Callable[..., Any]], calls: int, **options: Any) -> dict[str, int]:
    """Compare the calls with eager, and return what framejit has counted meanwhile."""
    framejit.reset()
    eager, traced = make(), make()
    compiled = framejit.compile(traced, backend="eager", **options)
    before = framejit.statistics()
    for n in range(calls):
        x = torch.full((3,), n / 8)
        Comparison().same(eager(x), compiled(x))
    after = framejit.statistics()
    return {name: after[name] - before[name] for name in ("graphs", "recompiles", "graph_breaks", "fallbacks")}


def read_everywhere() -> Callable[..., Any]:
    counter = Counter()

    def step(x: torch.Tensor) -> torch.Tensor:
        x = x + counter.steps
        print("", end="")
        x = x * (counter.steps + 2)
        print("", end="")
        counter.steps += 3
        return x - counter.steps

    return step


def changed_between() -> Callable[..., Any]:
    counter = Counter()

    def step(x: torch.Tensor) -> torch.Tensor:
        counter.rate *= 0.5
        x = x * counter.rate
        print("", end="")
        counter.rate += 0.25
        x = x * counter.rate
        print("", end="")
        return x / counter.rate

    return step


def test_a_number_that_differs_after_a_break_is_symbolic_there_at_once() -> None:
    """Only the first part, which was compiled before the number changed, is compiled anew."""
    assert counts_of(changed_between, 6) == {"graphs": 4, "recompiles": 1, "graph_breaks": 2, "fallbacks": 0}


def test_a_number_that_differs_from_call_to_call_is_learnt_by_each_part_once() -> None:
    assert counts_of(read_everywhere, 6) == {"graphs": 5, "recompiles": 2, "graph_breaks": 4, "fallbacks": 0}


def test_a_part_that_is_compiled_later_knows_what_the_others_have_learnt() -> None:
    def make() -> Callable[..., Any]:
        counter = Counter()

        def step(x: torch.Tensor) -> torch.Tensor:
            counter.steps += 1
            x = x * counter.steps
            if x.sum() > 2:  # from the third call on
                print("", end="")
                x = x + counter.steps
            return x

        return step

    assert counts_of(make, 8)["recompiles"] <= 2


def test_a_number_that_stays_is_a_constant_in_all_parts() -> None:
    def make() -> Callable[..., Any]:
        counter = Counter()
        counter.steps = 2

        def step(x: torch.Tensor) -> torch.Tensor:
            x = x.reshape(1, 3).repeat(counter.steps, 1)
            print("", end="")
            return x.repeat(counter.steps, 1)

        return step

    assert counts_of(make, 4) == {"graphs": 2, "recompiles": 0, "graph_breaks": 1, "fallbacks": 0}


def test_other_objects_of_the_same_name_keep_their_numbers() -> None:
    """A variable that holds another object after the break isn't the one from before it."""

    def make() -> Callable[..., Any]:
        one, other = Counter(), Counter()
        one.steps, other.steps = 2, 5

        def step(x: torch.Tensor) -> torch.Tensor:
            counter = one
            x = x + counter.steps
            print("", end="")
            counter = other
            return x.repeat(counter.steps)

        return step

    assert counts_of(make, 4) == {"graphs": 2, "recompiles": 0, "graph_breaks": 1, "fallbacks": 0}


def test_arguments_that_vary_are_symbolic_after_the_break_at_once() -> None:
    def step(x: torch.Tensor, n: int) -> torch.Tensor:
        x = x * n
        print("", end="")
        return x + n

    framejit.reset()
    compiled = framejit.compile(step, backend="eager")
    before = framejit.statistics()["recompiles"]
    for n in (3, 4, 5, 6):
        assert torch.equal(compiled(torch.ones(2), n), step(torch.ones(2), n))
    assert framejit.statistics()["recompiles"] - before == 2  # each part was compiled for 3 before the second call came


def test_without_dynamic_each_number_is_compiled() -> None:
    assert counts_of(read_everywhere, 3, dynamic=False) == {"graphs": 9, "recompiles": 6, "graph_breaks": 6, "fallbacks": 0}


def test_the_compilation_after_an_uncompiled_first_step_is_no_recompile() -> None:
    """Backends that compile a backward pass as a whole leave an optimizer's first step uncompiled, so that the second call is the first that is compiled."""
    results = []
    for compiles in (False, True):
        torch.manual_seed(0)
        weight = torch.ones(3, requires_grad=True)
        optimizer = torch.optim.Adam([weight], lr=0.1)

        def step(x: torch.Tensor, weight: torch.Tensor = weight, optimizer: torch.optim.Optimizer = optimizer) -> torch.Tensor:
            optimizer.zero_grad()
            loss = (weight * x).square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        framejit.reset()
        called = framejit.compile(step, backend="aot_eager") if compiles else step
        before = framejit.statistics()
        with framejit.config.replace(fail_on_recompile=True):
            results.append([called(torch.arange(3.0) + n) for n in range(4)] + [weight.detach()])
        after = framejit.statistics()
    assert all(map(torch.equal, *results))
    assert after["recompiles"] == before["recompiles"] and after["graphs"] - before["graphs"] == 1
    with framejit.config.replace(fail_on_recompile=True), pytest.raises(framejit.RecompileError):
        called(torch.ones(1))
