"""Entries whose calls a newer one serves: they go with all that they hold, or are tried first where that is faster, and no limit counts them."""

from __future__ import annotations

import gc
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import framejit
from framejit.compiler.superseded import fate
from framejit.driver import callback
from framejit.guards import superseded


@pytest.fixture(autouse=True)
def automatic():
    framejit.reset()
    with framejit.config.replace(automatic_dynamic=True):
        yield


class Graphs:
    """A backend that runs graphs as they are, and knows which there were and which there still are."""

    def __init__(self) -> None:
        self.made: list[weakref.ref[Any]] = []

    def __call__(self, gm: Any, example_inputs: Any) -> Any:
        self.made.append(weakref.ref(gm))
        return gm

    @property
    def alive(self) -> list[bool]:
        gc.collect()
        return [made() is not None for made in self.made]


def program(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + x.shape[0]


def call(compiled: Any, *sizes: int) -> None:
    for size in sizes:
        x = torch.randn(size, 3)
        assert torch.equal(compiled(x), program(x))


def test_an_entry_for_one_size_goes() -> None:
    """With a backend that makes nothing of sizes, whether or not the size comes again."""
    compiled = framejit.compile(program, backend="eager")
    call(compiled, 4, 4, 4)
    first = weakref.ref(compiled.entries[0])
    call(compiled, 5)
    gc.collect()
    assert len(compiled.entries) == 1 and first() is None
    call(compiled, 4, 5, 9)
    assert framejit.statistics()["graphs"] == 2


def test_its_graph_goes_with_it() -> None:
    graphs = Graphs()
    compiled = framejit.compile(program, backend=graphs)
    call(compiled, 4, 5)
    assert graphs.alive == [False, True] and compiled.n_preferred == 0


def test_a_size_that_comes_again_has_its_own_code() -> None:
    """It is used whenever the size comes, although the general entry serves it too and was used last."""
    graphs = Graphs()
    compiled = framejit.compile(program, backend=graphs)
    call(compiled, 4, 4, 4, 5)
    special, general = compiled.entries
    assert graphs.alive == [True, True] and compiled.n_preferred == 1 and special.hits == 3 and general.hits == 1
    call(compiled, 6, 4, 7, 4)
    assert compiled.entries == (special, general) and special.hits == 5 and general.hits == 3
    assert len(graphs.made) == 2


def test_no_limit_counts_them() -> None:
    compiled = framejit.compile(program, backend=Graphs(), recompile_limit=2)
    call(compiled, 4, 4, 5, 1, 7, 1)
    assert len(compiled.entries) == 3 and framejit.statistics()["fallbacks"] == 0
    call(compiled, 0)
    assert len(compiled.entries) == 3 and framejit.statistics()["fallbacks"] == 1


def test_few_are_preferred(monkeypatch: Any) -> None:
    monkeypatch.setattr(callback, "MOST_PREFERRED", 1)
    graphs = Graphs()
    compiled = framejit.compile(program, backend=graphs)
    call(compiled, 4, 4, 5, 5)
    for width in (7, 8):
        compiled(torch.randn(5, width))
    assert graphs.alive == [True, False, True] and compiled.n_preferred == 1


def test_equal_sizes_are_no_reason_to_prefer() -> None:
    """An entry with one symbol for two sizes has no size as a constant."""
    graphs = Graphs()
    compiled = framejit.compile(program, backend=graphs, dynamic=True)
    for shape in ((3, 3), (4, 4), (3, 4), (5, 5)):
        x = torch.randn(shape)
        assert torch.equal(compiled(x), program(x))
    assert graphs.alive == [False, True]


def test_what_is_not_served_stays() -> None:
    compiled = framejit.compile(lambda x: x + 1 if x.shape[0] < 5 else x - 1, backend="eager", dynamic=True)
    for size in (0, 1, 3, 9):
        compiled(torch.ones(size))
    assert len(compiled.entries) == 4


def test_another_module_keeps_its_entry() -> None:
    class Scaled(nn.Module):
        def __init__(self, factor: float) -> None:
            super().__init__()
            self.factor = factor

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.factor

    compiled = [framejit.compile(Scaled(factor), backend="eager") for factor in (2.0, 3.0)]
    for size in (4, 5, 4, 5):
        for factor, model in zip((2.0, 3.0), compiled):
            assert torch.equal(model(torch.ones(size)), torch.full((size,), factor))
    assert framejit.statistics()["graphs"] == 4


def test_what_is_preferred_is_so_for_the_next_compile() -> None:
    graphs = Graphs()
    compiled = framejit.compile(program, backend=graphs)
    call(compiled, 4, 4, 5)
    del compiled
    compiled = framejit.compile(program, backend=graphs)
    call(compiled, 6, 4)
    assert len(graphs.made) == 2 and compiled.n_preferred == 1 and compiled.entries[0].hits == 3
    framejit.reset()
    call(compiled, 4, 4)
    assert compiled.n_preferred == 0 and len(graphs.made) == 3


def test_behind_a_graph_break() -> None:
    """Resume functions keep their entries: `policy.learn` counts them, to see what changes in each iteration of a loop."""
    compiled = framejit.compile(lambda x: (x + 1, print(end=""), x * x.shape[0]), backend="eager")
    for size in (4, 5, 6, 4):
        x = torch.randn(size)
        first, _, last = compiled(x)
        assert torch.equal(first, x + 1) and torch.equal(last, x * size)
    assert len(compiled.entries) == 1
    (entry,) = compiled.entries
    assert [len(resumed.entries) for resumed in entry.resumes] == [2]


def test_while_another_thread_runs_it() -> None:
    """The entry goes while its graph runs; the call ends as it would have."""
    inside, go_on = threading.Event(), threading.Event()

    def backend(gm: Any, example_inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            if args[0].shape[0] == 4 and threading.current_thread() is other:
                inside.set()
                assert go_on.wait(30)
            return gm(*args)

        return run

    compiled = framejit.compile(program, backend=backend)
    x, results = torch.randn(4, 3), []
    other = threading.Thread(target=lambda: results.append(compiled(x)))
    other.start()
    assert inside.wait(30)
    call(compiled, 5)
    gc.collect()
    assert len(compiled.entries) == 1
    go_on.set()
    other.join()
    assert torch.equal(results[0], program(x))
    call(compiled, 4)
    assert len(compiled.entries) == 1


def test_threads_that_call_with_sizes_of_their_own() -> None:
    compiled = framejit.compile(program, backend=Graphs(), recompile_limit=64)
    failed: list[BaseException] = []

    def calls(first: int) -> None:
        try:
            for step in range(40):
                call(compiled, first, first + step % 5)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=calls, args=(first,)) for first in (2, 3, 9, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and compiled.n_preferred <= callback.MOST_PREFERRED


def test_worse_code_replaces_none(monkeypatch: Any) -> None:
    monkeypatch.setattr(superseded, "supersedes", lambda general, special: True)
    backend: Any = SimpleNamespace(faster_for_fixed_sizes=False)

    def entry(code: Any, step: Any = None) -> Any:
        return SimpleNamespace(code=code, step=step, hits=1, spec=SimpleNamespace(guards=()))

    assert fate(entry("code"), entry("code"), backend) == "goes"
    assert fate(entry("code"), entry("code", "step"), backend) == "stays"
    assert fate(entry("code", "step"), entry("code"), backend) == "goes"
    assert fate(entry("code"), entry(None), backend) == "stays"
    assert fate(entry(None), entry("code"), backend) == "stays"


def test_the_log_says_so(caplog: Any) -> None:
    with caplog.at_level("INFO", logger="framejit.dynamic"):
        call(framejit.compile(program, backend=Graphs(), isolate_recompiles=True), 4, 5)
        call(framejit.compile(program, backend=Graphs(), isolate_recompiles=True), 4, 4, 5)
    assert "entry 0 goes: entry 1 serves its calls too" in caplog.text and "entry 0 is preferred: entry 1" in caplog.text


def test_inductor_keeps_the_code_of_a_size_that_comes_again() -> None:
    compiled = framejit.compile(program)
    call(compiled, 4, 4, 5, 4)
    assert compiled.n_preferred == 1 and [entry.hits for entry in compiled.entries] == [3, 1]
