"""Small constants, as `torch.tensor(0.0)`, of which the trace knows the data: not any more where an operator changes it without saying how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framejit

IN_THE_PLACE_OF_EAGER = ("eager", "aot_eager")
OPTIMIZERS = ("Adam", "AdamW", "NAdam", "RAdam", "Adagrad", "Adamax", "RMSprop", "ASGD", "Rprop", "Adadelta")


@torch.library.custom_op("framejit_constants::add_sum", mutates_args=("tensors",))
def add_sum(tensors: list[torch.Tensor], x: torch.Tensor) -> None:
    for tensor in tensors:
        tensor.add_(x.sum())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_step_that_an_optimizer_has_counted(name: str) -> None:
    def steps(w: torch.Tensor, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> Any:
        found = []
        for _ in range(2):
            w.grad = x.clone()
            optimizer.step()
            step = optimizer.state[w]["step"]
            found.append((step.item(), x * (step.item() + 1), step.clone(), x + int(step.item() * 2) / 2))
        return found

    def run(wrap: Callable[..., Any]) -> Any:
        w, run = torch.ones(2, requires_grad=True), wrap(steps)
        optimizer = getattr(torch.optim, name)([w], lr=0.1)
        return [run(w, optimizer, torch.arange(2.0)) for _ in range(2)]

    torch.testing.assert_close(run(framejit.compile(backend="eager")), run(lambda function: function), rtol=0, atol=0)


def foreach(y: torch.Tensor, x: torch.Tensor) -> object:
    return torch._foreach_add_([y], [x.sum()])


def foreach_in_a_view(y: torch.Tensor, x: torch.Tensor) -> object:
    return torch._foreach_add_([y.view(1)], [x.sum().view(1)])


def foreach_of_numbers(y: torch.Tensor, x: torch.Tensor) -> object:
    return torch._foreach_mul_([y.detach()], 2.5)


def operator(y: torch.Tensor, x: torch.Tensor) -> object:
    return add_sum([y], x)


def operator_by_data(y: torch.Tensor, x: torch.Tensor) -> object:
    return add_sum([y.data], x)


@pytest.mark.parametrize("write", [foreach, foreach_in_a_view, foreach_of_numbers, operator, operator_by_data])
def test_constants_in_a_list_that_is_written_to(write: Callable[..., object]) -> None:
    def function(x: torch.Tensor) -> Any:
        y = torch.tensor(3.0)
        view, before = y.view(1), y.item()
        write(y, x)
        return before, y.item(), x * y.item(), view.item(), x * before, x + 1 if y > 4 else x - 1

    framejit.reset()
    compiled = framejit.compile(function, backend="eager")
    for x in (torch.ones(2), torch.full((2,), -2.0), torch.full((2,), 9.0)):
        torch.testing.assert_close(compiled(x), function(x), rtol=0, atol=0)


def test_constants_that_the_trace_computes_stay_known() -> None:
    def function(x: torch.Tensor) -> Any:
        count = torch.tensor(2)
        count += 1
        torch._foreach_add_([count], 1)
        return [x.view(count.item(), -1) + i for i in range(count.item())]

    compiled = framejit.compile(function, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(torch.arange(8.0)), function(torch.arange(8.0)), rtol=0, atol=0)
