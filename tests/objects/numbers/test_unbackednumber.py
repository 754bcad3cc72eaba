"""Numbers computed from items of tensors and from numbers of the program's, such as counts of a metric: values, roundings and errors are Python's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framejit


class Counts:
    """Counts of a metric, in all places where programs have them."""

    total = 0

    def __init__(self, start: int) -> None:
        self.hits, self.by_name, self.seen = start, {"hits": start, 2: 0}, [0, 0]
        type(self).total = 0


def accuracy(state: Counts, x: torch.Tensor, y: torch.Tensor) -> Any:
    state.hits += (x.argmax(1) == y).sum().item()
    Counts.total += len(y)
    return state.hits / Counts.total, 100.0 * state.hits / Counts.total, f"{100 * state.hits / Counts.total:.2f}%"


def rates(state: Counts, x: torch.Tensor, y: torch.Tensor) -> Any:
    for k in (1, 2):
        state.by_name["hits" if k == 1 else 2] += x.topk(k, 1).indices.t().eq(y.view(1, -1)).any(0).sum().item()
    state.seen[0] += y.numel()
    return {name: 100 * hits / state.seen[0] for name, hits in state.by_name.items()}, float(state.by_name["hits"]), float(state.by_name[2] - 3) / 7


def mean_of_counts(state: Counts, x: torch.Tensor, y: torch.Tensor) -> Any:
    state.hits = state.hits + int(y.sum().item()) * 2
    return sum([state.hits, x.sum().item(), 1.5]), state.hits * 0.5, 3.0 - state.hits, (state.hits - 1) / 4


@pytest.mark.parametrize("start", [0, 1, -5, 2**40, 2**53 + 1, 2**62, 2**64, 10**400])
@pytest.mark.parametrize("program", [accuracy, rates, mean_of_counts])
def test_counts_from_outside_grow_by_numbers_in_tensors_and_become_floats(program: Callable[..., Any], start: int) -> None:
    """Sums larger than any float raise OverflowError, and divisions round, as in Python."""

    def outcome(call: Callable[..., Any]) -> Any:
        torch.manual_seed(0)
        state, found = Counts(start), []
        for _ in range(4):
            try:
                found.append(call(state, torch.randn(6, 4), torch.tensor([0, 1, 2, 3, 0, 1])))
            except OverflowError as error:
                found.append(str(error))
        return found, vars(state), Counts.total

    framejit.reset()
    assert repr(outcome(framejit.compile(program, backend="eager"))) == repr(outcome(program))
    found = framejit.statistics()
    assert abs(start) > 2**60 or (found["graphs"], found["graph_breaks"]) == (1, 0)
