"""Operators that write to the tensors of a list: fakes don't say of those that they have been written to."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import agree
from torch import nn

import framejit

IN_THE_PLACE_OF_EAGER = ("eager", "aot_eager")


def test_operators_with_an_overload_are_run() -> None:
    def changes(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch.ops.aten._foreach_add_.Scalar([x, y], 1.0)
        torch.ops.aten._foreach_mul_.List([x], [y])
        return x * 2

    def only_changes(x: torch.Tensor) -> None:
        torch.ops.aten._foreach_add_.Scalar([x], 1.0)

    agree(changes, torch.ones(2), torch.arange(2.0))
    agree(only_changes, torch.ones(2))


class Countdown(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("left", torch.tensor(3))
        self.register_buffer("rate", torch.tensor(0.5))

    def forward(self, x: torch.Tensor) -> Any:
        torch._foreach_sub_([self.left], 1)
        before = self.rate.item()
        torch._foreach_mul_([self.rate], 0.25)
        return (x * 2 if self.left > 0 else x * 3), (1 if self.rate > 0.1 else 0), before, [x + i for i in range(max(self.left.item(), 0))]


def test_buffers_by_which_the_program_goes() -> None:
    eager, module = Countdown(), Countdown()
    compiled = framejit.compile(module, backend="eager")
    for _ in range(5):
        x = torch.ones(2)
        torch.testing.assert_close(compiled(x), eager(x), rtol=0, atol=0)
    assert torch.equal(module.left, eager.left) and torch.equal(module.rate, eager.rate)


@pytest.mark.parametrize("is_shared", [False, True])
def test_arguments_that_share_memory(is_shared: bool) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        torch._foreach_add_([x], 1.0)
        return y * 2, y.sum().item() + 1

    compiled = framejit.compile(function, backend="eager")
    for shared in (is_shared, not is_shared, is_shared):
        left, right = torch.arange(3.0), torch.arange(3.0)
        expected = function(left, left[1:] if shared else torch.ones(2))
        torch.testing.assert_close(compiled(right, right[1:] if shared else torch.ones(2)), expected, rtol=0, atol=0)
