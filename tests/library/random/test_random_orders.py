"""random.choice, sample, choices and shuffle of numbers are drawn by the graph, with eager's streams; of other things natively."""

from __future__ import annotations

import collections
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from agreement import Comparison, agree_over_calls

import framejit

BACKENDS = ("eager", "aot_eager")
SCALES = [0.5, 1.0, 2.0]
LAYERS = [torch.sin, torch.cos, torch.tanh, torch.exp]


def shuffled(x: torch.Tensor) -> Any:
    order = list(range(4))
    random.shuffle(order)
    rest = [5.0, 2.5, 1.0]
    random.shuffle(rest)
    places = [3, 4, 1]
    np.random.shuffle(places)
    return x[order], order, x * rest[0] + rest[2], places, [3, 2, 1]


WHOLE: dict[str, Callable[[torch.Tensor], Any]] = {
    "choice": lambda x: (x * random.choice(SCALES), x + random.choice(range(2, 90, 3)), random.choice((7, 9)), x[random.choice([0, 2, 1])]),
    "sample": lambda x: (x[random.sample(range(4), 2)], random.sample([1.5, 2.5, 3.5], k=2), x + torch.tensor(random.sample(range(1000), 6))),
    "choices": lambda x: (x * random.choices([1, 2, 3])[0], random.choices(SCALES, k=3), x[:, random.choices(range(6), k=2)]),
    "shuffle": shuffled,
    "stores": lambda x: x.clone().index_fill_(0, torch.tensor(random.sample(range(4), 2)), 0.0) + random.random(),
    "slices": lambda x: x[:, random.choice([0, 1, 2]) :][:, :2],
}
SPLIT: dict[str, Callable[[torch.Tensor], Any]] = {
    "functions": lambda x: random.choice(LAYERS)(x) + 1,
    "weights": lambda x: x * random.choices(SCALES, weights=[1, 2, 3])[0],
    "layers": lambda x: [LAYERS[i](x) for i in random.sample(range(4), 2)],
    "a branch": lambda x: x + 1 if random.choice([0, 1]) else x[1:],
    "too many": lambda x: x + len(random.sample(range(4000), 40)) + random.sample(range(4000), 40)[3],
    "counts": lambda x: x + random.sample([1, 2], 3, counts=[2, 3])[0],
}


def agree(program: Callable[[torch.Tensor], Any], backend: str, calls: int = 6) -> Any:
    framejit.reset()
    compiled = framejit.compile(program, backend=backend)
    x = torch.randn(4, 6)
    found = []
    for function in (program, compiled):
        random.seed(3)
        np.random.seed(3)
        found.append([(function(x), random.getstate(), np.random.rand()) for _ in range(calls)])
    Comparison().same(*found)
    return framejit.statistics()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", WHOLE)
def test_numbers_are_drawn_in_one_graph(name: str, backend: str) -> None:
    found = agree(WHOLE[name], backend)
    assert (found["graphs"], found["graph_breaks"], found["recompiles"]) == (1, 0, 0), found["reasons"]


@pytest.mark.parametrize("name", SPLIT)
def test_what_decides_is_drawn_natively(name: str) -> None:
    assert agree(SPLIT[name], "eager")["graph_breaks"] == (2 if name == "too many" else 1)


def test_lists_from_outside_are_shuffled_natively() -> None:
    """Each call finds another order: nothing of it is guarded."""
    order = list(range(5))

    def program(x: torch.Tensor) -> Any:
        random.shuffle(order)
        return x + 1

    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    random.seed(1)
    for _ in range(5):
        compiled(torch.ones(2))
    found, order = order, list(range(5))
    random.seed(1)
    for _ in range(5):
        random.shuffle(order)
    assert found == order and framejit.statistics()["recompiles"] == 0


@pytest.mark.parametrize("call", [
    lambda: random.choice([]), lambda: random.sample([1, 2], 3), lambda: random.sample([1, 2], -1), lambda: random.choices([], k=2),
    lambda: random.sample([1, 2], 0), lambda: random.choices([1.0], k=0), lambda: random.shuffle((1, 2)), lambda: random.choice([True, False]),
    lambda: random.choice([1, 2.0]), lambda: random.sample({1: 2}, 1), lambda: random.choice([10**30, 1]),
])  # fmt: skip
def test_unusual_arguments(call: Callable[[], Any]) -> None:
    def program(x: torch.Tensor) -> Any:
        try:
            return x + 1, call()
        except (ValueError, IndexError, TypeError) as error:
            return type(error), str(error)

    agree(program, "eager", calls=2)


@pytest.mark.parametrize("kind", [list, collections.deque])
def test_samples_of_a_collection_that_grows_are_drawn_natively(kind):
    """The break guards nothing about the length, which differs in each call."""

    def program(wrap):
        random.seed(4)
        memory, found = kind(), []

        def drawn():
            if len(memory) < 4:
                return None
            batch = random.sample(memory, 4)
            return sum(batch), random.random()

        draw = wrap(drawn)
        for step in range(20):
            memory.append(torch.full((2,), float(step)))
            found.append(draw())
        return found

    framejit.reset()
    agree_over_calls(program, stops=True)
    counts = framejit.statistics()
    assert counts["fallbacks"] == 0 and counts["recompiles"] <= 3, counts


def test_samples_that_cannot_be_drawn_raise_as_in_eager():
    def program(wrap):
        memory, found = [torch.ones(1)], []

        def drawn(count):
            try:
                return len(memory), random.sample(memory, count)
            except (ValueError, TypeError) as error:
                return type(error), str(error)

        draw = wrap(drawn)
        for count in (1, 3, 2, -1, 3, 1.5):
            found.append(draw(count))
            memory.append(torch.ones(1))
        return found

    random.seed(2)
    expected = program(lambda fn: fn)
    random.seed(2)
    Comparison().same(expected, program(lambda fn: framejit.compile(fn, backend="eager")))
