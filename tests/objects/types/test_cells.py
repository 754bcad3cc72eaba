"""Cells as objects: a closure's `__closure__`, `cell_contents`, and `types.CellType`."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framejit


def multiplies(factor: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: x * factor


def of_a_new_function(x: torch.Tensor, function: Any) -> Any:
    count = 0

    def counted(by: int) -> torch.Tensor:
        nonlocal count
        count += by
        return x * count

    result = counted(2)
    cells: Any = counted.__closure__
    before = cells[0].cell_contents
    cells[0].cell_contents = 7
    return result, before, count, counted(1), cells[1].cell_contents is x


def of_a_function_from_outside(x: torch.Tensor, function: Any) -> Any:
    function.__closure__[0].cell_contents += 1
    return function(x), function.__closure__[0].cell_contents


def of_an_emptied_closure(x: torch.Tensor, function: Any) -> Any:
    del function.__closure__[0].cell_contents
    try:
        return function(x)
    except NameError as error:
        return x + 1, str(error)


def made(x: torch.Tensor, function: Any) -> Any:
    empty, full, told = types.CellType(), types.CellType(x * 2), []
    for _ in range(2):
        try:
            told.append(empty.cell_contents)
            del empty.cell_contents
            told.append(empty.cell_contents)
        except ValueError as error:
            told.append(str(error))
        empty.cell_contents = full.cell_contents + 1
    return told, empty.cell_contents


PROGRAMS = [of_a_new_function, of_a_function_from_outside, of_an_emptied_closure, made]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_cells(program: Callable[..., Any]) -> None:
    expected, found = multiplies(2), multiplies(2)
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for size in (3, 4) if program is not of_an_emptied_closure else (3,):
        x = torch.arange(float(size))
        assert repr(compiled(x, found)) == repr(program(x, expected))
        assert expected.__closure__ == found.__closure__


def test_a_cell_that_leaves_the_call() -> None:
    x = torch.ones(2)
    cell = framejit.compile(lambda x: types.CellType(x + 1), backend="eager", fullgraph=True)(x)
    assert type(cell) is types.CellType and torch.equal(cell.cell_contents, x + 1)
