"""Calls of a function that may not be compiled again."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

import framejit
from framejit.driver import callback


@pytest.fixture(autouse=True)
def fresh() -> None:
    framejit.reset()


def test_beyond_the_limit_no_guard_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a user has been told of a limit, calls that no entry fits run uncompiled at once; the entries that are there still serve theirs."""
    with framejit.config.replace(recompile_limit=2):
        compiled = framejit.compile(lambda x: x * 2 + len(x), backend="eager", dynamic=False)
    for n in (1, 2, 3):
        compiled(torch.ones(n))
    asked = []
    monkeypatch.setattr(callback, "decide", asked.append)
    monkeypatch.setattr(callback, "note_varying", asked.append)
    before = framejit.statistics()
    for n in (3, 4, 1, 2, 5):
        assert torch.equal(compiled(torch.ones(n)), torch.full((n,), 2.0 + n))
    assert not asked and framejit.statistics() == before


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.inner(x)).sin() + 1


class Tagged(nn.Module):
    """A model with an argument that each call has another value of, and with blocks that don't see it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x: torch.Tensor, tag: str) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        if tag.endswith("!"):
            raise KeyError(tag)
        return x + len(tag)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_beyond_the_limit_what_a_frame_calls_is_compiled(backend: str) -> None:
    model = Tagged()
    compiled = framejit.compile(model, backend=backend, recompile_limit=3)
    given = torch.ones(2, 4)
    graphs = []
    for number in range(8):
        assert torch.equal(compiled(given, f"call {number}"), model(given, f"call {number}"))
        graphs.append(framejit.statistics()["graphs"])
    # One graph for each of three tags, then two for the blocks: the first one's input needs no gradient.
    assert graphs == [1, 2, 3, 5, 5, 5, 5, 5]
    assert len(framejit.statistics()["uncompiled"]) == framejit.statistics()["fallbacks"] == 1
    with pytest.raises(KeyError, match="call!"):
        compiled(given, "call!")
    compiled(given, "call 9").sum().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    model(given, "call 9").sum().backward()
    assert all(map(torch.equal, gradients, (parameter.grad for parameter in model.parameters())))


def recurse(x: torch.Tensor, tags: tuple[str, ...]) -> torch.Tensor:
    return recurse(x.sin(), tags[1:]) if tags else x


def twice(x: torch.Tensor, tag: str) -> torch.Tensor:
    return x * 2 + len(tag)


def passes_on(x: torch.Tensor, tag: str) -> torch.Tensor:
    return twice(x, tag) + len(tag)


def items(x: torch.Tensor, tag: str) -> Iterator[torch.Tensor]:
    for _ in range(2):
        yield twice(x, "")


def consumes(x: torch.Tensor, tag: str) -> torch.Tensor:
    return sum(items(x, tag), x) + len(tag)


@pytest.mark.parametrize(("program", "most"), [(passes_on, 3 + 2), (consumes, 3 + 1)])
def test_what_changes_everywhere_is_compiled_a_few_times_only(program: Callable[..., torch.Tensor], most: int) -> None:
    compiled = framejit.compile(program, backend="eager", recompile_limit=3)
    given = torch.ones(3)
    for number in range(12):
        assert torch.equal(compiled(given, f"call {number}"), program(given, f"call {number}"))
    assert framejit.statistics()["graphs"] == most


def test_a_recursion_beyond_the_limit_is_not_compiled_once_more() -> None:
    compiled = framejit.compile(recurse, backend="eager", recompile_limit=2)
    given = torch.ones(3)
    for number in range(6):
        tags = ("tag",) * (number + 1)
        assert torch.equal(compiled(given, tags), recurse(given, tags))
    assert framejit.statistics()["graphs"] == 2


def test_what_the_program_says_of_compiling_holds_beyond_the_limit() -> None:
    model = Tagged()
    given = torch.ones(2, 4)
    whole = framejit.compile(model, backend="eager", recompile_limit=2, fullgraph=True)
    compiled = framejit.compile(model, backend="eager", recompile_limit=2)
    for number in range(2):
        whole(given, f"call {number}")
        compiled(given, f"call {number}")
    with pytest.raises(framejit.Unsupported, match="FJ019"):
        whole(given, "call 2")
    before = framejit.statistics()["graphs"]
    with framejit.set_stance("eager_on_recompile"):
        assert torch.equal(compiled(given, "call 3"), model(given, "call 3"))
    assert framejit.statistics()["graphs"] == before
    seen: list[str] = []
    sys.setprofile(lambda frame, event, argument: seen.append(frame.f_code.co_qualname) if event == "call" else None)
    try:
        result = compiled(given, "call 4")
    finally:
        sys.setprofile(None)
    assert torch.equal(result, model(given, "call 4")) and seen.count("Block.forward") == 3  # who watches sees the frames


def plus(t: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    return t + factor


def times(t: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    return t * factor


def minus(t: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    return t - factor


def wave(t: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    return (t * factor).cos()


STEPS = (plus, times, minus, wave)


def in_order(t: torch.Tensor, factors: list[torch.Tensor], order: torch.Tensor) -> torch.Tensor:
    for index in order.tolist():
        if (factors[index] != 0).any():
            t = STEPS[index](t, factors[index])
    return t + 1


def test_entries_for_sizes_that_have_become_symbolic_dont_fill_the_limit_of_a_loop() -> None:
    """A resume function has an entry for each step of a loop, first for one size, and then for all: no operation on the tensors is left to native code."""
    compiled = framejit.compile(in_order, backend="eager")
    for size in (1, 2, 3):
        for order in list(itertools.permutations(range(4)))[::3]:
            args = torch.ones(size, 3), [torch.rand(size, 1) for _ in range(4)], torch.tensor(order)
            assert torch.equal(compiled(*args), in_order(*args))
    found = framejit.statistics()
    assert not found["fallbacks"] and not any(reason.startswith("FJ028 t ") for reason in found["reasons"])
