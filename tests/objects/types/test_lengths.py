"""Lengths of lists and deques that grow from call to call: symbolic once they are seen to vary, and open where they are only compared, against eager."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import Comparison

import framejit


def grown(function: Callable[..., Any], calls: int = 8, make: Callable[[], Any] = list) -> dict[str, Any]:
    """Compare calls with a list or deque that they may change with eager's; what has been counted."""
    framejit.reset()
    compiled = framejit.compile(function, backend="eager")
    expected, found = make(), make()
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


BOUNDS = [None, 0, 1, 4, 50]


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("function", [
    lambda x, log: (log.append(x.sum().item()), x * len(log))[1],
    lambda x, log: (log.append(x), x + 1 if len(log) < 3 else x * len(log))[1],
    lambda x, log: (log.extend([x, x]), log.maxlen, bool(log), len(log))[1:],
    lambda x, log: (log.append(x), log[-1] * 2 if log else x)[1],
])  # fmt: skip
def test_a_deque_that_grows(function: Callable[..., Any], bound: int | None) -> None:
    found = grown(function, 9, lambda: deque(maxlen=bound))
    assert (found["graph_breaks"], found["fallbacks"]) == (0, 0) and found["recompiles"] <= 3, found


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("function", [
    lambda x, log: (log.append(x), sum(log) / max(len(log), 1))[1],
    lambda x, log: (len(log), log.append(x), log.appendleft(x * 2), len(log), list(log)),
    lambda x, log: (log.append(x), log.extend(log), len(log))[2] if len(log) < 8 else x,
    lambda x, log: (log.append(x), log.popleft() if len(log) > 2 else x, len(log))[1:],
    lambda x, log: (log.extend([x, x + 1, x + 2]), [log[i] for i in range(-min(3, len(log)), 0)])[1],
    lambda x, log: (log.append(x), log.copy(), log == log.copy(), repr(log))[1:3],
])  # fmt: skip
def test_deques_that_are_looked_into(function: Callable[..., Any], bound: int | None) -> None:
    grown(function, 6, lambda: deque(maxlen=bound))


def test_an_append_to_a_deque_guards_nothing() -> None:
    def function(x: torch.Tensor, log: deque[Any]) -> torch.Tensor:
        log.append(x)
        return x + 1

    assert grown(function, 6, lambda: deque(maxlen=3))["recompiles"] == 0


def test_an_append_is_taken_back_where_a_break_follows_it() -> None:
    def function(x: torch.Tensor, log: deque[Any]) -> Any:
        log.append(x)
        before = len(log)
        print(end="")
        log.append(x + 1)
        try:
            log.append(x + 2)
            raise ValueError(len(log))
        except ValueError as error:
            return before, error.args, len(log), log[-1]

    for bound in BOUNDS[2:]:
        grown(function, 6, lambda bound=bound: deque(maxlen=bound))


def test_a_replay_buffer_that_fills_is_compiled_for_both_of_its_states() -> None:
    class Replay:
        def __init__(self) -> None:
            self.memory: deque[Any] = deque(maxlen=20)

        def push(self, *parts: Any) -> None:
            self.memory.append(parts)

        def __len__(self) -> int:
            return len(self.memory)

    def function(x: torch.Tensor, replay: Replay) -> torch.Tensor | None:
        replay.push(x, x.sum().item())
        return None if len(replay) < 6 else x * 2

    framejit.reset()
    compiled = framejit.compile(function, backend="eager")
    expected, found = Replay(), Replay()
    for i in range(30):
        x = torch.full((2,), float(i))
        Comparison().same((function(x, expected), expected.memory), (compiled(x, found), found.memory))
    counted = framejit.statistics()
    assert counted["graph_breaks"] == counted["fallbacks"] == 0 and counted["recompiles"] <= 4, counted


def test_a_length_of_the_programs_own_that_varies() -> None:
    class Sized:
        def __init__(self, count: int) -> None:
            self.count = count

        def __len__(self) -> int:
            return self.count - 2

    def function(x: torch.Tensor, sized: Sized) -> Any:
        try:
            return (x * len(sized), len(sized)) if len(sized) > 3 else x + len(sized)
        except ValueError as error:
            return str(error)

    framejit.reset()
    compiled = framejit.compile(function, backend="eager")
    for count in (4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 11):
        Comparison().same(function(torch.ones(2), Sized(count)), compiled(torch.ones(2), Sized(count)))
    assert framejit.statistics()["recompiles"] <= 4


def test_a_comparison_of_the_length_of_a_deque_is_guarded_by_its_outcome() -> None:
    """A replay buffer is asked whether it holds enough, also through a `__len__` of the program's: a way is compiled once."""

    class Buffer:
        def __init__(self) -> None:
            self.items: deque[int] = deque(maxlen=9)

        def __len__(self) -> int:
            return len(self.items)

    def program(x: torch.Tensor, buffer: Buffer) -> torch.Tensor:
        return x * 2 if len(buffer) < 4 and len(buffer.items) < 8 else x + 1

    framejit.reset()
    compiled, buffer, x = framejit.compile(program, backend="eager", fullgraph=True), Buffer(), torch.ones(2)
    for number in range(12):
        assert torch.equal(compiled(x, buffer), program(x, buffer))
        buffer.items.append(number)
    assert framejit.statistics()["graphs"] == 2


def test_the_length_of_a_deque_that_is_used_is_the_one_before_later_changes() -> None:
    def program(x: torch.Tensor, items: deque[int]) -> tuple[torch.Tensor, int, int]:
        before = len(items)
        items.append(before)
        items.extend([1, 2])
        items.popleft()
        return x.repeat(1 + before), before, len(items)

    compiled, ours, theirs, x = framejit.compile(program, backend="eager"), deque([5]), deque([5]), torch.ones(2)
    for _ in range(4):
        (found, *numbers), (expected, *others) = compiled(x, ours), program(x, theirs)
        assert torch.equal(found, expected) and numbers == others and ours == theirs
