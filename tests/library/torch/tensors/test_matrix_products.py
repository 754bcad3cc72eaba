"""Products of matrices with different dtypes raise as in eager, where the program is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from operators import BACKENDS
from torch import nn

import framejit

ONE, OTHER = torch.ones(2, 2), torch.ones(2, 2, dtype=torch.float64)
PRODUCTS = [
    lambda: torch.mm(ONE, OTHER),
    lambda: ONE @ OTHER,
    lambda: OTHER.matmul(ONE),
    lambda: torch.mv(ONE, OTHER[0]),
    lambda: torch.addmm(OTHER, ONE, ONE),
    lambda: torch.addmv(ONE[0], ONE, OTHER[0]),
    lambda: nn.functional.linear(ONE, OTHER),
    lambda: nn.functional.linear(ONE, ONE, OTHER[0]),
]


@pytest.mark.parametrize("backend", [*BACKENDS, "inductor"])
@pytest.mark.parametrize("product", PRODUCTS)
def test_products_of_different_dtypes_raise_in_their_place(product: Any, backend: str) -> None:
    def program(x: torch.Tensor, seen: list[int]) -> Any:
        seen.append(1)
        x.add_(1)
        try:
            return product()
        except RuntimeError as error:
            seen.append(2)
            return str(error), x * 2

    states = []
    for run in (program, framejit.compile(program, backend=backend)):
        x, seen = torch.ones(3), list[int]()
        states.append((run(x, seen), x, seen))
    (message, twice), x, seen = states[1]
    assert message == states[0][0][0] and torch.equal(twice, states[0][0][1])
    assert torch.equal(x, states[0][1]) and seen == states[0][2] == [1, 2]


def test_products_under_autocast_and_of_one_dtype_are_part_of_the_graph() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = x @ y.to(torch.bfloat16)
        return found, x @ y

    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for one, other in zip(compiled(ONE, ONE), program(ONE, ONE)):
        assert torch.equal(one, other) and one.dtype == other.dtype
