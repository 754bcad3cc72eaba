"""Operators whose results' sizes depend on data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framejit

CALLS: dict[str, Callable[[torch.Tensor, int], Any]] = {
    "function": lambda x, dim: torch.unique_consecutive(x, dim=dim),
    "function with all results": lambda x, dim: torch.unique_consecutive(x, True, True, dim),
    "method": lambda x, dim: x.unique_consecutive(False, True, dim),
    "method by name": lambda x, dim: x.unique_consecutive(dim=dim),
    "unique": lambda x, dim: x.unique(dim=dim),
}


def as_tuple(results: Any) -> tuple[torch.Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 1, 4)])
@pytest.mark.parametrize("name", CALLS)
def test_sizes_of_the_results_are_those_of_eager(name: str, shape: tuple[int, ...]):
    def sized(x: torch.Tensor, dim: int) -> Any:
        results = as_tuple(CALLS[name](x, dim))
        return [(each.dim(), each.shape) for each in results], results

    torch.manual_seed(0)
    x = torch.randint(0, 2, shape)
    compiled = framejit.compile(sized, recompile_limit=20)
    framejit.reset()
    for dim in range(-len(shape), len(shape)):
        (sizes, results), (expected_sizes, expected) = compiled(x, dim), sized(x, dim)
        assert sizes == expected_sizes
        assert all(torch.equal(*pair) for pair in zip(results, expected, strict=True))


def test_a_dimension_out_of_range_raises_as_in_eager():
    with pytest.raises(IndexError):
        framejit.compile(CALLS["method by name"], backend="eager")(torch.ones(3), -2)


MASKS = {"of more rows": (4,), "of one row": (3, 4), "of both": (3, 1), "of the same size": (2, 3, 4)}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", MASKS)
def test_masks_select_elements_as_often_as_they_are_broadcast(name: str, dynamic: bool | None):
    def chosen(x: torch.Tensor, mask: torch.Tensor) -> Any:
        all_of_them = x.masked_select(mask)
        return len(all_of_them) > x.numel(), torch.masked_select(x, mask=mask), all_of_them * 2

    framejit.reset()
    compiled = framejit.compile(chosen, dynamic=dynamic)
    for _ in range(2):
        x, mask = torch.randn(MASKS[name]), torch.rand(2, 3, 4) > 0.1
        for result, expected in zip(compiled(x, mask), chosen(x, mask), strict=True):
            assert torch.equal(result, expected) if isinstance(expected, torch.Tensor) else result is expected
