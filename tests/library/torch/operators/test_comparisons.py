"""torch.equal and torch.allclose: bools that depend on data, in the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framejit

NAN = float("nan")


def raises_where_not_close(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if not torch.allclose(x, y, atol=1e-3):
        raise ValueError("they differ")
    return x + y


def raises_where_unequal(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if not torch.equal(x, y):
        raise ValueError("they differ")
    return x * 2


def gives_bools(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.equal(x, y), x.allclose(y, equal_nan=True), x.equal(x), torch.equal(x, x * 1), x.allclose(y, 0.5)


def branches(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + 1 if torch.equal(x, y) else x - 1


def outcome(function: Callable[..., Any], *args: Any) -> str:
    try:
        return repr(function(*args))
    except Exception as error:
        return repr(error)


CALLS = [
    (torch.ones(2, 2), torch.ones(2, 2)), (torch.ones(2, 2), torch.ones(2, 2) + 1e-4), (torch.ones(2, 2), torch.zeros(2, 2)),
    (torch.full((2, 2), NAN), torch.full((2, 2), NAN)), (torch.ones(3, 3), torch.ones(3, 1)), (torch.ones(2), torch.ones(2, dtype=torch.float64)),
    (torch.ones(2, dtype=torch.int64), torch.ones(2, dtype=torch.int64)),
]  # fmt: skip


@pytest.mark.parametrize("function", [raises_where_not_close, raises_where_unequal, gives_bools, branches])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_comparisons_of_whole_tensors(function: Callable[..., Any], backend: str) -> None:
    framejit.reset()
    compiled = framejit.compile(function, backend=backend, fullgraph=True)
    compiled(*CALLS[0])
    assert framejit.statistics()["graphs"] == 1
    compiled = framejit.compile(function, backend=backend)
    for call in CALLS:
        assert outcome(compiled, *call) == outcome(function, *call)
    same = torch.full((2, 2), NAN)
    assert outcome(compiled, same, same) == outcome(function, same, same)


def test_comparisons_give_no_gradients() -> None:
    def scaled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if not torch.equal(x, y) or not torch.allclose(x, y):
            raise ValueError("they differ")
        return (x * y).sum()

    x, y = torch.tensor([2.0, 3.0], requires_grad=True), torch.tensor([2.0, 3.0])
    framejit.compile(scaled, backend="eager", fullgraph=True)(x, y).backward()
    assert x.grad is not None and torch.equal(x.grad, y)
