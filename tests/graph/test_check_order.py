"""A check of the program's that fails has the call run again as it is written, so nothing outside the graph may have been changed before it."""

from __future__ import annotations

import torch
from agreement import Comparison, agree, outcome

import framejit

IN_THE_PLACE_OF_EAGER = ("eager", "aot_eager")


@torch.library.custom_op("framejit_order::add_and_sum", mutates_args=("x",))
def add_and_sum(x: torch.Tensor) -> torch.Tensor:
    x.add_(20)
    return x.sum()


@add_and_sum.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(())


def chosen(x: torch.Tensor) -> torch.Tensor:
    add_and_sum(x)
    return x[x[0].int().item()]


def chosen_in_a_copy(x: torch.Tensor) -> torch.Tensor:
    copy = x.clone()
    total = add_and_sum(copy)
    return x[copy[0].int().item() - 18] + total


def test_an_operator_that_writes_to_an_argument_and_gives_a_new_tensor() -> None:
    x, y = torch.arange(5.0), torch.arange(5.0)
    raised = [outcome(chosen, (x,), {}), outcome(framejit.compile(chosen, backend="eager"), (y,), {})]
    assert [type(error) for _, error in raised] == [IndexError, IndexError]  # whose texts differ between releases of torch
    Comparison().same(x, y)
    agree(chosen, torch.arange(5.0) - 18, fullgraph=False)
    agree(chosen_in_a_copy, torch.arange(5.0))
    agree(chosen_in_a_copy, torch.arange(5.0) + 18, fullgraph=False)
