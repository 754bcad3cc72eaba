"""torch._assert_async where a handler of the program sees its error."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framejit


def caught(x: torch.Tensor) -> Any:
    y = x * 2
    try:
        torch._assert_async((y > 0).all(), "not positive")
        y = y + 1
    except RuntimeError as error:
        return y, str(error)
    return y, None


def cleaned_up(x: torch.Tensor) -> Any:
    seen = []
    with contextlib.suppress(RuntimeError):
        try:
            seen.append(x + 1)
            torch._assert_async(x[0] > 0)
            seen.append(x - 1)
        finally:
            seen.append(x * 3)
    return seen


@pytest.mark.parametrize("function", [caught, cleaned_up])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_assertion_under_a_handler_is_part_of_the_graph(function: Callable[[torch.Tensor], Any], backend: str) -> None:
    framejit.reset()
    compiled = framejit.compile(function, backend=backend, fullgraph=True)
    for number in (1.0, 2.0, 0.0, 3.0):
        x = torch.full((2,), number)
        assert repr(compiled(x)) == repr(function(x))
    assert framejit.statistics()["graphs"] == 1


def test_an_assertion_after_a_change_is_made_natively() -> None:
    def changed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        try:
            torch._assert_async((y > 0).all())
        except RuntimeError:
            return y - 1
        return y + 1

    compiled = framejit.compile(changed, backend="eager")
    for number in (1.0, -1.0, 1.0):
        x, y = torch.zeros(2), torch.full((2,), number)
        assert torch.equal(compiled(x, y), changed(torch.zeros(2), y))
        assert torch.equal(x, torch.ones(2))
