"""Programs for which it matters later that they have been told that they are compiled: they behave as they do uncompiled."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.compiler import is_compiling

import framejit

x = torch.arange(6.0).reshape(2, 3)


@pytest.fixture(autouse=True)
def fresh() -> None:
    framejit.reset()


class Value:
    """A number that native code reads and writes."""

    def __init__(self, value: int = 0) -> None:
        self.value = value


class Store:
    """Holds its length in an object, and as an int where it has been told that it is compiled."""

    def __init__(self) -> None:
        self.held = Value()
        self.is_shared = True

    def get(self) -> int:
        return self.held.value

    @framejit.disable
    def length(self) -> int:
        return self.get()


class BranchesOnIt(Store):
    def add(self, value: int) -> None:
        if not is_compiling() and self.is_shared:
            self.held = Value(value)
        else:
            self.held = value


class ReturnsEarly(Store):
    def add(self, value: int) -> None:
        if is_compiling():
            self.held = value
            return
        self.held = Value(value)


class ChoosesTheValue(Store):
    def add(self, value: int) -> None:
        self.held = value if is_compiling() else Value(value)


class ItsCallStores(Store):
    def keep(self, value: Any) -> None:
        self.__dict__["held"] = value

    def add(self, value: int) -> None:
        if is_compiling():
            self.keep(value)
        else:
            self.keep(Value(value))


STORES = [BranchesOnIt, ReturnsEarly, ChoosesTheValue, ItsCallStores]


@pytest.mark.parametrize("kind", STORES)
def test_a_change_that_outlasts_the_call_is_that_of_the_uncompiled_program(kind):
    store = kind()

    @framejit.compile(backend="eager")
    def step(a, by):
        a = a * 2
        store.add(by)
        return a + 1

    for by in (3, 4, 5):
        assert torch.equal(step(x, by), x * 2 + 1)
        assert store.length() == by
    assert framejit.statistics()["graph_breaks"] == 0


@pytest.mark.parametrize("kind", STORES)
def test_native_code_after_the_change_sees_it(kind):
    store = kind()

    @framejit.compile(backend="eager")
    def step(a, by):
        a = a * 2
        store.add(by)
        return a + store.length()

    for by in (3, 4):
        assert torch.equal(step(x, by), x * 2 + by)
    assert framejit.statistics()["fallbacks"] == 0


def test_an_answer_that_is_only_stored_is_the_one_that_was_given():
    seen = []

    @framejit.compile(backend="eager")
    def step(a):
        seen.append(is_compiling())
        return a + 1

    assert torch.equal(step(x), x + 1) and seen == [True]


class Mode:
    """Has a flag that compiled programs set for the time of a call, in place of a context variable."""

    def __init__(self) -> None:
        self.is_compiled = False
        self.others: list[int] = []

    def enter(self) -> None:
        if is_compiling():
            self.is_compiled = True
        else:
            self.others.append(1)

    def leave(self) -> None:
        if self.is_compiled:
            self.is_compiled = False
        else:
            self.others.pop()


@pytest.mark.parametrize("breaks", [0, 1])
def test_a_change_that_is_undone_later_in_the_call_takes_back_no_answer(breaks):
    mode, seen = Mode(), []

    @framejit.compile(backend="eager")
    def step(a):
        mode.enter()
        a = a + 1
        for _ in range(breaks):
            framejit.graph_break()
        seen.append(mode.is_compiled)
        mode.leave()
        return a * 2

    for _ in range(2):
        assert torch.equal(step(x), (x + 1) * 2) and not mode.is_compiled and not mode.others
    assert seen == [True, True] and framejit.statistics()["graph_breaks"] == breaks


def test_a_change_that_only_compiled_programs_make_is_taken_back_if_it_outlasts_the_call():
    mode = Mode()

    @framejit.compile(backend="eager")
    def step(a):
        mode.enter()
        return a + 1

    assert torch.equal(step(x), x + 1) and not mode.is_compiled and mode.others == [1]


def of_a_choice(a):
    mask = None if is_compiling() else torch.ones(3)
    framejit.graph_break()
    return a.sin() * mask[None]


def of_a_branch(a):
    mask = None
    if not is_compiling():
        mask = torch.ones(3)
    a = a.cos()
    framejit.graph_break()
    return a * mask[None]


def made(a):
    if is_compiling():
        return None
    return a.new_ones(3)


def of_a_result(a):
    mask = made(a)
    a = a.cos()
    framejit.graph_break()
    return a * mask[None]


def of_the_answer(a):
    is_fast = not not is_compiling()
    a = a.cos()
    framejit.graph_break()
    return a @ a if is_fast else a + 1


def inside_the_branch(a):
    if is_compiling():
        a = a.cos()
        framejit.graph_break()
        raise ValueError("no fast path")
    return a.sin()


def in_a_handler(a):
    try:
        mask = None
        if not is_compiling():
            mask = torch.ones(3)
        return a.sin() * mask[None]
    finally:
        print(end="")


def in_the_caller(a):
    b = of_a_branch(a)
    return b + of_a_choice(b)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [of_a_choice, of_a_branch, of_a_result, of_the_answer, inside_the_branch, in_a_handler, in_the_caller])
def test_what_follows_a_graph_break_is_what_follows_uncompiled(program, backend):
    compiled = framejit.compile(program, backend=backend)
    for given in (x, x + 1, torch.ones(5, 3)):
        assert torch.equal(compiled(given), program(given))
    assert framejit.statistics()["fallbacks"] == 0


def test_a_break_after_the_ways_have_met_takes_back_no_answer():
    def program(a):
        b = a + 10 if is_compiling() else a
        if not is_compiling() and a.sum() > 0:
            print("positive")
        is_fast = is_compiling()
        b = b * (2 if is_fast else 3)
        framejit.graph_break()
        return b

    assert torch.equal(framejit.compile(program, backend="eager")(x), (x + 10) * 2)
    assert framejit.statistics()["graph_breaks"] == 1


def test_changes_apart_from_the_branch_take_back_no_answer():
    log = []

    def program(a):
        if is_compiling():
            a = a + 10
        log.append(a.shape)
        return a

    assert torch.equal(framejit.compile(program, backend="eager")(x), x + 10) and len(log) == 1


def test_a_program_that_must_be_one_graph_is_told_so():
    store = BranchesOnIt()

    @framejit.compile(backend="eager", fullgraph=True)
    def step(a):
        store.add(3)
        return a + 1

    assert torch.equal(step(x), x + 1) and store.held == 3


def test_the_log_says_that_it_was_traced_once_more(caplog):
    framejit.set_logs("fallbacks")
    try:
        with caplog.at_level("INFO", "framejit.fallbacks"):
            framejit.compile(of_a_branch, backend="eager")(x)
    finally:
        framejit.set_logs()
    assert any("traced once more" in record.message and "graph break depends on whether it is compiled" in record.message for record in caplog.records)
