"""Sizes that depend on data, and data computed from floats, vary from the start where a call continues after a break."""

from __future__ import annotations

import collections
import functools
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import Comparison

import framejit
from framejit.guards.generators import READABLE

needs_generators = pytest.mark.skipif(not READABLE, reason="suspended frames can't be read")


def compared(program: Callable[..., Any], calls: list[tuple[Any, ...]]) -> dict[str, Any]:
    """Compare the calls with eager, and return what framejit has counted meanwhile."""
    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    before = framejit.statistics()
    for args in calls:
        Comparison().same(program(*args), compiled(*args))
    after = framejit.statistics()
    assert after["fallbacks"] == before["fallbacks"]
    return {name: after[name] - before[name] for name in ("graphs", "recompiles", "graph_breaks")}


def rows(n: int) -> torch.Tensor:
    return torch.tensor([1.0] * n + [-1.0] * (8 - n))


def chosen_rows(x: torch.Tensor) -> torch.Tensor:
    found = x[x > 0]
    print("", end="")
    return found * 2


def in_a_cell(x: torch.Tensor) -> torch.Tensor:
    found = x[x > 0]

    def twice() -> torch.Tensor:
        return found * 2

    print("", end="")
    return twice()


def below_a_call(x: torch.Tensor) -> torch.Tensor:
    return [x[x > 0].cumsum(0), print("", end="")][0].sin()


class Holder:
    def __init__(self, found: Any) -> None:
        self.found = found


def in_a_list(x: torch.Tensor) -> torch.Tensor:
    held = [x[x > 0], x]
    print("", end="")
    return held[0] * 2


def in_an_attribute(x: torch.Tensor) -> torch.Tensor:
    holder = Holder((x[x > 0], 1))
    print("", end="")
    return holder.found[0] * 2


def in_a_generator(x: torch.Tensor) -> torch.Tensor:
    def doubled() -> Any:
        found = x[x > 0]
        yield x * 2
        yield found * 2

    made = doubled()
    twice = next(made)
    print("", end="")
    return twice.sum() + next(made)


def in_a_dict(x: torch.Tensor) -> torch.Tensor:
    held = {"found": [x[x > 0]], 1: x}
    print("", end="")
    return held["found"][0] * 2


def in_a_deque(x: torch.Tensor) -> torch.Tensor:
    held = collections.deque([x, x[x > 0]], maxlen=3)
    print("", end="")
    return held.pop() * 2


def in_a_partial(x: torch.Tensor) -> torch.Tensor:
    held = functools.partial(torch.add, x[x > 0], other=x[x > 0])
    print("", end="")
    return held()


GENERATOR = pytest.param(in_a_generator, marks=needs_generators)
PROGRAMS = [chosen_rows, in_a_cell, below_a_call, in_a_list, in_an_attribute, in_a_dict, in_a_deque, in_a_partial, GENERATOR]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_sizes_that_depend_on_data_are_symbolic_at_once(program: Callable[..., Any]) -> None:
    assert compared(program, [(rows(n),) for n in (5, 3, 7, 4)]) == {"graphs": 2, "recompiles": 0, "graph_breaks": 1}


@needs_generators
def test_numbers_that_an_iterator_in_use_has_yet_to_give_are_symbolic_at_once() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        def chosen() -> Any:
            yield from x.argsort().tolist()

        total = x.sum()
        for index in chosen():
            total = total + x[index] * 2
            print("", end="")
        return total

    counted = compared(program, [(torch.tensor(values),) for values in ([3.0, 1.0, 2.0, 5.0, 4.0], [1.0, 2.0, 3.0, 5.0, 4.0])])
    assert counted["recompiles"] <= 1  # for the end


def test_a_size_of_one_is_compiled_once_more() -> None:
    assert compared(chosen_rows, [(rows(n),) for n in (5, 1, 3, 1)])["recompiles"] <= 1


def best_first(scores: torch.Tensor) -> list[int]:
    order = scores.argsort()
    print("", end="")
    return [2 * index for index in order.tolist()]


def of_pairs(x: torch.Tensor) -> list[torch.Tensor]:
    found = []
    for row, factor in zip(x.sigmoid(), x.relu(), strict=True):
        print("", end="")
        if row.sum() > 1:
            row = row * factor
        found.append(row)
    return found


@pytest.mark.parametrize("program", [best_first, of_pairs], ids=lambda program: program.__name__)
def test_no_entry_depends_on_data_computed_from_floats(program: Callable[..., Any]) -> None:
    """Scores differ in each call, so that an entry for the order of the first would never serve again."""
    calls = [(torch.randn(3, 2) if program is of_pairs else torch.randn(4),) for _ in range(8)]
    first, later = compared(program, calls[:4]), compared(program, calls)
    assert later["recompiles"] <= 4 and later["graphs"] <= first["graphs"] + 2


def offsets(lengths: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
    ends = lengths.cumsum(0)
    print("", end="")
    return [x[:end].sum() for end in ends.tolist()]


def test_ints_computed_from_ints_may_still_be_guarded() -> None:
    lengths = torch.tensor([1, 2, 3])
    assert compared(offsets, [(lengths, torch.randn(6)) for _ in range(3)]) == {"graphs": 2, "recompiles": 0, "graph_breaks": 1}
    assert compared(offsets, [(torch.tensor(given), torch.randn(9)) for given in ([1, 2, 3], [2, 2, 2], [3, 1, 4])])["graph_breaks"] >= 1


def test_data_of_tensors_from_outside_is_guarded_as_before() -> None:
    class Sliced(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("ends", torch.tensor([1, 3]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x.sin()
            print("", end="")
            return y[: self.ends[1].item()]

    model = Sliced()
    counts = compared(model, [(torch.randn(n),) for n in (5, 5)])
    assert counts["recompiles"] == 0 and counts["graph_breaks"] == 1
    model.ends[1] = 2
    compared(model, [(torch.randn(5),)])


def lists_of_data(x: torch.Tensor) -> list[torch.Tensor]:
    values = (x * 100).round().int().tolist()
    return [x + value for value in values]


def test_numbers_in_lists_that_depend_on_data_are_symbolic_at_once() -> None:
    counts = compared(lists_of_data, [(torch.tensor([0.01 * n, 0.5 + n]),) for n in range(6)])
    assert counts["recompiles"] == 0 and counts["graphs"] <= 2


def drawn_items(items: list[tuple[int, float, bool]], x: torch.Tensor) -> Any:
    actions, rewards, ended = zip(*random.sample(items, len(items) - 1))
    return x.sum() + torch.tensor(actions).sum() * 2 + torch.tensor(rewards).sum() - torch.tensor(ended).sum(), actions, ended


def test_numbers_and_flags_in_what_is_drawn_are_data() -> None:
    """As in a replay buffer: no draw is compiled for itself."""
    items = [(n, n / 4, n % 2 == 0) for n in range(5)]
    framejit.reset()
    compiled = framejit.compile(drawn_items, backend="eager")
    before = framejit.statistics()
    for seed in range(8):
        x = torch.ones(seed % 3 + 1)
        random.seed(seed)
        expected, stands = drawn_items(items, x), random.getstate()
        random.seed(seed)
        Comparison().same(expected, compiled(items, x))
        assert random.getstate() == stands
    assert framejit.statistics()["recompiles"] - before["recompiles"] <= 2
