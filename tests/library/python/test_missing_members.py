"""Enum classes whose `_missing_` finds a member for a value that none has."""

from __future__ import annotations

import enum
from typing import Any

import pytest
import torch
from agreement import agree

import framejit

X = torch.arange(3.0)
ALIASES = {"fp32": 1}


class Precision(enum.Enum):
    FULL = 1
    HALF = 2

    @classmethod
    def _missing_(cls, value: Any) -> Any:
        if isinstance(value, str) and value.lower() in ALIASES:
            return cls(ALIASES[value.lower()])
        if value == 0:
            return None
        if value == -1:
            return 3
        return cls.HALF if value == 16 else super()._missing_(value)


class Padding(str, enum.Enum):
    LONGEST = "longest"

    @classmethod
    def _missing_(cls, value: Any) -> Any:
        raise ValueError(f"{value} is not a valid {cls.__name__}")


@pytest.mark.parametrize("value", [1, "fp32", "FP32", 16])
def test_a_member_is_found(value: Any) -> None:
    def chosen(x: torch.Tensor, value: Any) -> Any:
        found = Precision(value)
        return x * found.value, found, found is Precision.HALF

    framejit.reset()
    agree(chosen, X, value)
    assert framejit.statistics()["graph_breaks"] == 0


@pytest.mark.parametrize("value", [0, -1, 3, None, "fp64", [1]])
def test_errors_are_pythons(value: Any) -> None:
    def chosen(x: torch.Tensor, value: Any) -> Any:
        try:
            return Precision(value)
        except (ValueError, TypeError) as error:
            return type(error), str(error), type(error.__context__), x

    agree(chosen, X, value, fullgraph=False)


def test_a_class_that_raises_an_error_of_its_own() -> None:
    def chosen(x: torch.Tensor, value: str) -> Any:
        try:
            return Padding(value), x
        except ValueError as error:
            return str(error), str(error.__context__), x

    for value in ("longest", "shortest"):
        agree(chosen, X, value, fullgraph=False)


def test_what_it_reads_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(x: torch.Tensor) -> torch.Tensor:
        return x * Precision("fp32").value

    compiled = framejit.compile(chosen, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X), X)
    monkeypatch.setitem(ALIASES, "fp32", 2)
    assert torch.equal(compiled(X), X * 2)
