"""Changes of tensors by numbers of a higher kind raise as in eager, where the program is."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
from operators import BACKENDS

import framejit

CHANGES: list[Any] = [
    lambda x, number: x.mul_(number), lambda x, number: operator.imul(x, number), lambda x, number: x.mul_(torch.tensor(number)),
    lambda x, number: x.mul_(torch.full((2,), number)), lambda x, number: x.add_(number), lambda x, number: x.sub_(number, alpha=2),
    lambda x, number: operator.isub(x, number), lambda x, number: x.addcmul_(torch.full((2,), number), x),
]  # fmt: skip
DTYPES = [torch.int64, torch.uint8, torch.bool, torch.float32, torch.float16, torch.complex64]


def outcome(run: Any, x: torch.Tensor, number: Any) -> tuple[Any, ...]:
    try:
        return "returned", run(x, number).tolist(), x.tolist(), x.dtype
    except RuntimeError as error:
        return type(error), str(error), x.tolist()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("change", CHANGES)
def test_changes_by_numbers_of_a_higher_kind_raise(change: Any, backend: str) -> None:
    for dtype in DTYPES:
        for number in (2.5, 3, True, 2j):
            expected = outcome(change, torch.ones(2, dtype=dtype), number)
            compiled = framejit.compile(lambda x, number: change(x, number), backend=backend)
            assert outcome(compiled, torch.ones(2, dtype=dtype), number) == expected, (dtype, number)


def test_a_change_that_raises_comes_after_those_before_it() -> None:
    def program(counts: torch.Tensor, other: torch.Tensor) -> Any:
        other.add_(1)
        try:
            counts *= 0.5
        except RuntimeError as error:
            return str(error)
        return other

    for backend in [*BACKENDS, "inductor"]:
        states = []
        for run in (program, framejit.compile(program, backend=backend)):
            counts, other = torch.full((3,), 5), torch.zeros(2)
            states.append((run(counts, other), counts.tolist(), other.tolist()))
        assert states[0] == states[1]


def test_changes_by_symbolic_numbers() -> None:
    def program(counts: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        return counts.mul_(sizes.shape[0]).add_(sizes.shape[0])

    compiled = framejit.compile(program, backend="aot_eager", dynamic=True, fullgraph=True)
    for size in (3, 5, 7):
        assert torch.equal(compiled(torch.ones(2, dtype=torch.int64), torch.ones(size)), torch.tensor([2 * size, 2 * size]))
