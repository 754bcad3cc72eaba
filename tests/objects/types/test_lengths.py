"""Lengths of lists that grow from call to call: symbolic once they are seen to vary, against eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import Comparison

import framejit


def grown(function: Callable[..., Any], calls: int = 8) -> dict[str, Any]:
    """Compare calls with a list that they may change with eager's; what has been counted."""
    framejit.reset()
    compiled = framejit.compile(function, backend="eager")
    expected: list[Any] = []
    found: list[Any] = []
    for i in range(calls):
        x = torch.full((2,), float(i))
        Comparison().same((function(x, expected), expected), (compiled(x, found), found))
    return framejit.statistics()


@pytest.mark.parametrize("function", [
    lambda x, log: (log.append(x), x + len(log))[1],
    lambda x, log: (log.append(x.sum().item()), x * len(log), f"{len(log)} so far")[1:],
    lambda x, log: (log.append({"x": x}), log[-1]["x"] + len(log) / 2)[1],
    lambda x, log: (x + len(log), log.extend([x, x]), len(log) - 1),
    lambda x, log: (log.append(x), torch.arange(len(log)) + 1)[1],
])  # fmt: skip
def test_a_log_that_grows(function: Callable[..., Any]) -> None:
    found = grown(function)
    assert (found["graph_breaks"], found["fallbacks"]) == (0, 0) and found["recompiles"] <= 2, found


def test_a_decision_by_a_length() -> None:
    def function(x: torch.Tensor, log: list[Any]) -> Any:
        log.append(x)
        if len(log) > 4:
            return x - len(log)
        return x + 1

    found = grown(function, 10)
    assert found["graph_breaks"] == 0 and found["recompiles"] <= 3, found


@pytest.mark.parametrize("function", [
    lambda x, log: (log.append(x), len(log), sum(log) / len(log))[1:],
    lambda x, log: (len(log), log.insert(0, x), len(log), log[0] + len(log)),
    lambda x, log: (log.append(x), log.pop(0) if len(log) > 3 else x, len(log))[1:],
    lambda x, log: (log.append(x), [len(log) for _ in log], log[len(log) - 1] * 2)[1:],
    lambda x, log: (len(log), log.clear() if len(log) > 2 else log.append(x), len(log)),
    lambda x, log: (log.append(x), log[-2:], range(len(log)), log[-1:-3:-1])[1:],
])  # fmt: skip
def test_lengths_of_lists_that_are_looked_into(function: Callable[..., Any]) -> None:
    grown(function)


def test_an_index_before_the_beginning() -> None:
    def function(x: torch.Tensor, log: list[Any]) -> Any:
        log.append(x)
        try:
            return log[-2]
        except IndexError as error:
            return str(error)

    grown(function)
