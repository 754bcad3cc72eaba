"""Errors of the compiler that leave a call after a graph break: their tracebacks have the program's lines."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import pytest
import torch

import framejit


def plain(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    framejit.graph_break()
    with framejit.error_on_graph_break(True):
        framejit.graph_break()
    return x


def inner(x: torch.Tensor) -> torch.Tensor:
    try:
        return plain(x) * 2
    finally:
        x.add_(1)


def last_after_loop(x: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        x = x * 2
    framejit.graph_break()
    return plain(x)


@pytest.mark.parametrize("program", [plain, inner, last_after_loop])
def test_each_entry_of_the_traceback_has_a_line(program: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(framejit.Unsupported) as caught:
        framejit.compile(program, backend="eager")(torch.ones(2))
    entries = traceback.extract_tb(caught.value.__traceback__)
    assert all(entry.lineno is not None for entry in entries)
    last = [entry.lineno for entry in entries if entry.filename == __file__][-1]
    first = plain.__code__.co_firstlineno
    assert last is not None and first + 2 <= last <= first + 5
