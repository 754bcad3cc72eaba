"""Numbers that a call reads and replaces, wherever they lie, are symbolic from the first call on: no second compilation, and the results of eager mode."""

from __future__ import annotations

import collections
import dataclasses
import enum
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framejit

Program = tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[], object]]
TOTAL = 0
"""A counter of the module's."""


def moving_average() -> Program:
    """The decay grows with the number of updates, as averages of weights have it."""
    state = types.SimpleNamespace(updates=0)

    def update(x: torch.Tensor) -> torch.Tensor:
        state.updates += 1
        return x * min(0.9, (1 + state.updates) / (10 + state.updates))

    return update, lambda: vars(state)


def cell() -> Program:
    count = 3

    def step(x: torch.Tensor) -> torch.Tensor:
        nonlocal count
        if count > 0:
            x = x + 1
        count += 1
        return x

    return step, lambda: count


def of_the_module() -> Program:
    def step(x: torch.Tensor) -> torch.Tensor:
        global TOTAL
        if TOTAL > 100:
            x = x + 1
        TOTAL += 2
        return x * 2

    return step, lambda: TOTAL


def fading() -> Program:
    """A float that is used and shrinks."""
    state = {"noise": 0.5}

    def step(x: torch.Tensor) -> torch.Tensor:
        if state["noise"] > 0.0:
            x = x + state["noise"]
        state["noise"] *= 0.9
        return x

    return step, lambda: state


def measured() -> Program:
    """The graph gives the next value."""
    state = types.SimpleNamespace(best=1)

    def step(x: torch.Tensor) -> torch.Tensor:
        if state.best > 100:
            x = x - 1
        state.best = int(x.sum().item())
        return x

    return step, lambda: vars(state)


def one_cycle() -> Program:
    """A scheduler counts its steps, and asks for the number."""
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=50)

    def step(x: torch.Tensor) -> torch.Tensor:
        weight.grad = x * 2
        optimizer.step()
        schedule.step()
        return weight.detach() * 1

    return step, lambda: (schedule.last_epoch, schedule.get_last_lr(), weight.tolist())


@dataclasses.dataclass(slots=True)
class Progress:
    steps: int = 0
    loss: float = 0.0
    done: bool = False


class Phase(enum.Enum):
    WARMUP = 1
    TRAINING = 2


def items_of_lists() -> Program:
    counts, nested = [0, 5, 7], {"history": [0.5, 0]}

    def step(x: torch.Tensor) -> torch.Tensor:
        if counts[0] > 100:
            x = x + 1
        counts[0] += 1
        counts[-1] += 2
        nested["history"][0] *= 0.5
        return x / (counts[0] + counts[1] + counts[2]) + nested["history"][0]

    return step, lambda: (counts, nested)


def items_of_a_deque() -> Program:
    recent = collections.deque([1, 2, 3], maxlen=3)

    def step(x: torch.Tensor) -> torch.Tensor:
        recent.append(recent[-1] + 1)
        return x * recent[0]

    return step, lambda: recent


def values_of_dicts() -> Program:
    """Keys are of all kinds that programs have: guards look some of these up, and find others by their places."""
    by_layer, by_phase, by_class = {0: 0, (1, 2): 0}, {Phase.WARMUP: 3, Phase.TRAINING: 3, "all": 2}, {torch.nn.ReLU: 0}

    def step(x: torch.Tensor) -> torch.Tensor:
        by_layer[0] += 1
        by_layer[1, 2] += 2
        by_phase[Phase.TRAINING] += 1
        by_phase["all"] += 2
        by_class[torch.nn.ReLU] += 1
        return x * (by_layer[0] + by_layer[1, 2]) + by_phase[Phase.TRAINING] * by_class[torch.nn.ReLU]

    return step, lambda: (by_layer, by_phase, by_class)


def slots() -> Program:
    progress = Progress()

    def step(x: torch.Tensor) -> torch.Tensor:
        progress.steps += 1
        progress.loss += 0.5 * progress.steps
        if progress.steps > 100:
            progress.done = True
        return x * progress.loss

    return step, lambda: progress


def attributes_of_a_class() -> Program:
    class Base:
        made = 0

        @classmethod
        def count(cls) -> int:
            cls.made += 1
            return cls.made

    class Derived(Base):
        pass

    def step(x: torch.Tensor) -> torch.Tensor:
        if Derived.made > 100:
            x = x + 1
        return x * Derived.count() + Base.count()

    return step, lambda: (Base.made, Derived.made)


def two_names_of_a_list() -> Program:
    first = [0]
    second = types.SimpleNamespace(counts=first)

    def step(x: torch.Tensor) -> torch.Tensor:
        first[0] += 1
        second.counts[0] += 1
        return x * first[0]

    return step, lambda: (first, second.counts)


KINDS_OF_HOLDERS = [items_of_lists, items_of_a_deque, values_of_dicts, slots, attributes_of_a_class, two_names_of_a_list]


def outcome(call: Callable[[torch.Tensor], torch.Tensor], state: Callable[[], object], calls: int) -> list[Any]:
    return [(call(torch.arange(2.0) + number).tolist(), repr(state())) for number in range(calls)]


def check(make: Callable[[], Program], graphs: int, calls: int = 5, **options: Any) -> None:
    """Compare some calls with eager's, and count the graphs and recompiles."""
    global TOTAL
    TOTAL = 0
    expected = outcome(*make(), calls)
    TOTAL = 0
    function, state = make()
    framejit.reset()
    options = {"backend": "eager", "fullgraph": True, **options}
    assert outcome(framejit.compile(function, **options), state, calls) == expected
    found = framejit.statistics()
    assert (found["graphs"], found["recompiles"]) == (graphs, graphs - 1)


@pytest.mark.parametrize("make", [moving_average, cell, of_the_module, fading, measured, *KINDS_OF_HOLDERS])
def test_a_counter_is_symbolic_in_the_first_graph(make: Callable[[], Program]) -> None:
    check(make, graphs=1)


def test_a_count_that_a_scheduler_raises_after_the_graph() -> None:
    check(one_cycle, graphs=2)  # the first step makes the optimizer's state


@pytest.mark.parametrize("make", [moving_average, cell, items_of_lists, slots, attributes_of_a_class])
def test_nothing_is_symbolic_if_the_program_forbids_it(make: Callable[[], Program]) -> None:
    check(make, graphs=5, dynamic=False)


def test_a_way_of_the_program_that_another_count_takes_is_compiled_once() -> None:
    def make() -> Program:
        state = types.SimpleNamespace(steps=0)

        def step(x: torch.Tensor) -> torch.Tensor:
            state.steps += 1
            return x * 2 if state.steps % 3 == 0 else x + 1

        return step, lambda: vars(state)

    check(make, graphs=2, calls=9)


def test_a_number_that_is_put_back_is_a_constant() -> None:
    """The next call finds the same number, which sizes may depend on."""

    def make() -> Program:
        state = types.SimpleNamespace(depth=1)

        def step(x: torch.Tensor) -> torch.Tensor:
            state.depth += 1
            x = x.repeat(state.depth)
            state.depth -= 1
            return x

        return step, lambda: vars(state)

    seen: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        seen.append(graph)
        return graph

    check(make, graphs=1, backend=backend)
    assert [type(node.args[1]) for node in seen[0].graph.nodes if node.target == "repeat"] == [int]


def test_numbers_that_can_have_no_symbol() -> None:
    """nan differs from itself, and large ints don't fit guards; the trace isn't restarted for ever."""

    def make() -> Program:
        state = types.SimpleNamespace(loss=float("nan"), seed=2**62)

        def step(x: torch.Tensor) -> torch.Tensor:
            if state.loss > 1 or state.seed < 0:
                x = x + 1
            state.loss, state.seed = state.loss + 1, state.seed * 4
            return x

        return step, lambda: (str(state.loss), state.seed)

    function, state = make()
    expected = outcome(function, state, 4)
    function, state = make()
    assert outcome(framejit.compile(function, backend="eager"), state, 4) == expected


def test_an_index_that_turns_round() -> None:
    """Each place in a list is compiled once, as it would be if the index came from elsewhere."""

    def make() -> Program:
        state, parts = types.SimpleNamespace(index=0), [torch.ones(2) * number for number in range(3)]

        def step(x: torch.Tensor) -> torch.Tensor:
            found = parts[state.index] + x
            state.index = (state.index + 1) % 3
            return found

        return step, lambda: vars(state)

    check(make, graphs=3, calls=7)


def test_a_counter_of_a_call_that_raises() -> None:
    state = types.SimpleNamespace(steps=0)

    @framejit.compile(backend="eager")
    def step(x: torch.Tensor) -> torch.Tensor:
        state.steps += 1
        if state.steps == 2:
            raise ValueError(state.steps)
        return x * state.steps

    assert step(torch.ones(1)).item() == 1
    with pytest.raises(ValueError, match="2"):
        step(torch.ones(1))
    assert [step(torch.ones(1)).item() for _ in range(2)] == [3, 4]
    assert state.steps == 4


def test_flags_in_a_list_and_in_slots_are_constants() -> None:
    """A bool is no number that counts, and neither is an item that is exchanged for a value of another type."""

    def make() -> Program:
        progress, flags = Progress(), [False, 0]

        def step(x: torch.Tensor) -> torch.Tensor:
            if flags[0] and progress.done:
                x = x * 3
            flags[0], flags[1], progress.done = not flags[0], True, not progress.done
            return x + flags[1]

        return step, lambda: (progress, flags)

    check(make, graphs=2)  # one for each flag


def test_items_that_are_moved() -> None:
    """Items of a list change their places, so that each place has another number in each call."""

    def make() -> Program:
        window = [1, 2, 3, 4]

        def step(x: torch.Tensor) -> torch.Tensor:
            window.append(window.pop(0) + 4)
            return x * window[0] + sum(window)

        return step, lambda: window

    check(make, graphs=1)


def test_a_list_that_another_call_gives() -> None:
    """The list of another call has the same items, or others, at the same path."""
    framejit.reset()

    def step(x: torch.Tensor, counts: list[int]) -> torch.Tensor:
        counts[0] += 1
        return x * counts[0] if counts[0] != 7 else x - 1

    compiled = framejit.compile(step, backend="eager", fullgraph=True)
    for start in (0, 5, 6, -3, 2**40):
        mine, expected = [start], [start]
        for _ in range(3):
            assert compiled(torch.ones(2), mine).tolist() == step(torch.ones(2), expected).tolist()
        assert mine == expected
    assert framejit.statistics()["graphs"] == 2
