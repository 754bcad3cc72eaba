"""Items that a tensor without dimensions selects in functions under torch.vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framejit

TABLE = torch.arange(24.0).reshape(2, 3, 4)
PLACES = torch.tensor([2, 1, 0])


def in_a_table(i: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return torch.vmap(lambda j: TABLE[0, 0][j] * 2)(i)


def in_some_dimensions(i: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return torch.vmap(lambda j: TABLE[:, j].sum() + TABLE[0, j, 1] + TABLE[j % 2, :, j] + rows[j, None, 1:].sum() + rows[..., j].sum())(i)


def of_mapped_rows(i: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return torch.vmap(lambda row, j: row[j])(rows, i)


def negative(i: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return torch.vmap(lambda j: rows[-1 - j])(i.to(torch.int32))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [in_a_table, in_some_dimensions, of_mapped_rows, negative], ids=lambda program: program.__name__)
def test_items_are_indices(program: Callable[..., Any], backend: str) -> None:
    rows, copies = (torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).requires_grad_() for _ in range(2))
    compiled = framejit.compile(program, backend=backend, fullgraph=True)
    expected, found = program(PLACES, rows), compiled(PLACES, copies)
    assert torch.equal(expected, found)
    if expected.requires_grad:
        expected.sum().backward()
        found.sum().backward()
        assert torch.equal(rows.grad, copies.grad)


def test_an_item_that_is_not_mapped_is_the_same_for_all() -> None:
    def shifted(i: torch.Tensor) -> torch.Tensor:
        first = i[0]
        return torch.vmap(lambda j: TABLE[0, first % 3] + j)(i)

    assert torch.equal(framejit.compile(shifted, backend="eager")(PLACES), shifted(PLACES))


def test_places_outside_raise() -> None:
    def outside(i: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda j: TABLE[j])(i)

    for function in (outside, framejit.compile(outside, backend="eager")):
        with pytest.raises(IndexError):
            function(PLACES)


def test_whether_a_transform_is_in_force() -> None:
    def asked(x: torch.Tensor) -> torch.Tensor:
        def inside(y: torch.Tensor) -> torch.Tensor:
            return y + torch._C._are_functorch_transforms_active()

        return torch.vmap(inside)(x) * 10 + inside(x)

    compiled = framejit.compile(asked, backend="eager", fullgraph=True)
    x = torch.ones(3)
    assert torch.equal(compiled(x), asked(x))
    assert torch.equal(torch.vmap(framejit.compile(asked, backend="eager"))(x[None]), torch.vmap(asked)(x[None]))
