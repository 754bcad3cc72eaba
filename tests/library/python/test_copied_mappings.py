"""copy and pickle's view of OrderedDict and defaultdict in compiled functions, against eager."""

from __future__ import annotations

import copy
from collections import OrderedDict, defaultdict
from typing import Any

import pytest
import torch
from agreement import agree

import framejit


def ordered(x: torch.Tensor) -> Any:
    first = OrderedDict(b=[1, 2], a={"n": 3})
    first.note = ["kept"]  # type: ignore[attr-defined]
    second, third = copy.copy(first), copy.deepcopy(first)
    second["b"].append(4)
    third["a"]["n"] = 5  # type: ignore[call-overload]
    third.note.append("in the copy")  # type: ignore[attr-defined]
    return x + 1, first, second, third, second.note is first.note  # type: ignore[attr-defined]


def with_a_factory(x: torch.Tensor) -> Any:
    first: Any = defaultdict(list, a=[1])
    second = copy.deepcopy(first)
    second["b"].append(2)
    return x * 2, first, second, second.default_factory, copy.copy(first)["a"] is first["a"], copy.deepcopy(defaultdict(None, a=[1]))


def of_tensors(x: torch.Tensor) -> Any:
    return copy.copy(OrderedDict(x=x, y=x + 1))


@pytest.mark.parametrize("function", [ordered, with_a_factory, of_tensors])
def test_against_eager(function: Any) -> None:
    framejit.reset()
    agree(function, torch.ones(2))
    assert framejit.statistics()["graph_breaks"] == 0
