"""Items of tensors and arrays at places that vary from call to call: one compilation for all of them, as schedules that are looked up by the step have it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from agreement import Comparison, outcome

import framejit

BACKENDS = ("eager", "aot_eager")
RATES = 0.5 * (1 + np.cos(np.pi * np.arange(8) / 8))
TABLE = np.arange(24.0).reshape(8, 3)


class State:
    def __init__(self) -> None:
        torch.manual_seed(0)
        self.table = torch.randn(8, 3, 2)
        self.weight = torch.randn(8, 3, requires_grad=True)
        self.model = torch.nn.Linear(3, 2)
        self.average = copy.deepcopy(self.model).requires_grad_(False)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1.0, momentum=0.9)
        self.seen: list[Any] = []


def items(s, i, x):
    return s.table[i], s.table[i, 1], s.table[:, i - i + 1], s.table[..., None][i], s.table[i][1:], s.table[i, :, 0] * 2, s.table[i, i - i]


def before_tensors_and_masks(s, i, x):
    return s.table[i, torch.tensor([0, 2])], s.table[i, s.table[i] > 0], s.table[i, ::2, 0]


def from_the_end(s, i, x):
    return s.table[-i - 1] + s.table[i - 8]


def views(s, i, x):
    row = s.table[i]
    s.table.add_(1)
    return row + 0, row is s.table[i], row


def stored(s, i, x):
    s.table[i] = x[:3, :2]
    s.table[i, 1] += 1
    s.table[i, :, 0].mul_(2)
    return s.table.sum()


def differentiated(s, i, x):
    loss = (s.weight[i] * x[0]).sum() + s.weight[i, 1].square()
    loss.backward()
    grad, s.weight.grad = s.weight.grad, None
    return loss.detach(), grad


def of_arrays(s, i, x):
    return RATES[i], TABLE[i], TABLE[i, 1], x + RATES[i], torch.from_numpy(TABLE[i]) + 1


def a_schedule(s, i, x):
    for group in s.optimizer.param_groups:
        group["lr"] = RATES[i]
    loss = s.model(x).square().mean()
    s.optimizer.zero_grad()
    loss.backward()
    s.optimizer.step()
    with torch.no_grad():
        momentum = RATES[i]
        for mine, theirs in zip(s.average.parameters(), s.model.parameters()):
            mine.data.mul_(momentum).add_((1 - momentum) * theirs.detach().data)
    s.seen.append(loss.item())
    return list(s.average.parameters())


PROGRAMS = (items, before_tensors_and_masks, from_the_end, views, stored, differentiated, of_arrays, a_schedule)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_places_share_what_is_compiled(program: Any, backend: str) -> None:
    framejit.reset()
    expected, state, compiled = State(), State(), framejit.compile(program, backend=backend, isolate_recompiles=True)
    for i in range(2):  # what an optimizer makes in its first step, and what is seen to vary
        x = torch.randn(4, 3)
        Comparison().same(program(expected, i, x), compiled(state, i, x))
    graphs = framejit.statistics()["graphs"]
    for i in (2, 5, 7, 3):
        x = torch.randn(4, 3)
        left, right = program(expected, i, x), compiled(state, i, x)
        Comparison().same((left, expected.table, expected.seen), (right, state.table, state.seen))
    assert framejit.statistics()["graphs"] <= graphs + (program is a_schedule)  # with AOTAutograd the second step is the first that is compiled
    assert framejit.statistics()["graph_breaks"] == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_places_out_of_range_and_from_the_end(backend: str) -> None:
    framejit.reset()
    program = lambda table, i: table[i] * 2
    compiled, table = framejit.compile(program, backend=backend, isolate_recompiles=True), torch.arange(6.0).view(3, 2)
    for i in (0, 1, 2, -1, -3, 3, -4, 2, -2, 1):
        left, right = outcome(program, (table, i), {}), outcome(compiled, (table, i), {})
        assert left[0] == right[0] and type(left[1]) is type(right[1])
        if torch.__version__ >= "2.13" or left[0] == "returned":  # with torch 2.11, select() has other words for it than an index has
            Comparison().same(left, right)
