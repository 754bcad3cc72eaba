"""Scenarios of change: programs whose surroundings change between calls, and whether a change has to compile once more.

A scenario is a generator function. It first yields `start(callable, arguments ...)`; then, each time after having changed something,
NEW if the change must cause another compilation, BACK if an earlier state has returned, SAME if the change doesn't concern the
program. `NEW.of(...)` calls with other arguments from then on. After each step eager and compiled must agree.

After each step the rules of `neighbours.py` make changes next to the program's values: nothing may be compiled. `play` fails a scenario in
which nothing next to the observed value has been changed, neither by the rule that its kind names nor by a SAME of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import types
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from agreement import Comparison, outcome
from change_kinds import Kind
from neighbours import LIMITS, RULES, Beside, Surroundings
from torch.overrides import TorchFunctionMode

import framejit
from framejit._runtime import CompiledFunction


@dataclass(frozen=True)
class Start:
    """The callable of a scenario and its first arguments. traced: whether it must be compiled, or run uncompiled; None if either is right."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    traced: bool | None


@dataclass(frozen=True)
class Step:
    """The effect that a change must have. differs: eager's result differs from the one before, which shows that the scenario does something."""

    compiles: bool | None
    differs: bool | None
    args: tuple[Any, ...] | None = None
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    drops: bool = False

    def of(self, *args: Any, **kwargs: Any) -> Step:
        """Return a step that also passes other arguments from then on."""
        return dataclasses.replace(self, args=args, kwargs=kwargs)


def start(target: Any, *args: Any, **kwargs: Any) -> Start:
    """Return the first step of a scenario, whose program must be compiled."""
    return Start(target, args, kwargs, True)


def start_as_written(target: Any, *args: Any, **kwargs: Any) -> Start:
    """Return the first step of a scenario whose program runs uncompiled: the reasons for that are guarded all the same."""
    return Start(target, args, kwargs, False)


def start_any(target: Any, *args: Any, **kwargs: Any) -> Start:
    """Return the first step of a scenario whose program may be compiled or not."""
    return Start(target, args, kwargs, None)


NEW = Step(True, True)
NEW_UNSEEN = Step(True, None)
"""Compiles once more, though the result may be the same."""
BACK = Step(False, None)
SAME = Step(False, False)
AFRESH = Step(True, True, drops=True)
"""As NEW, but everything compiled before is thrown away."""
EITHER = Step(None, None)
"""The call may compile or not, and may have another result than before."""
OTHER = Step(False, True)
"""Another result, from the same compiled code."""


UNDONE = "undone"


def compiled_function(compiled: Any) -> CompiledFunction:
    """Return the CompiledFunction that is run when the result of `framejit.compile` is called."""
    if isinstance(compiled, types.MethodType):
        compiled = compiled.__func__
    return compiled if isinstance(compiled, CompiledFunction) else type(compiled).__call__


def compilations() -> int:
    """Return the number of frames, resumed ones included, that have been compiled or found to run uncompiled."""
    counts = framejit.statistics()
    return sum(counts[name] for name in ("frames", "fallbacks"))


def compare(a: Any, b: Any, where: str) -> None:
    """Assert that two values are the same, bypassing the function modes that the scenario has set."""
    with torch._C.DisableTorchFunction():
        Comparison().same(a, b, where)


def agree_on(a: Any, b: Any) -> bool:
    try:
        compare(a, b, "")
    except AssertionError:
        return False
    return True


class Adding(TorchFunctionMode):
    """Adds a number to the result of every function of torch."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result + 100 if isinstance(result, torch.Tensor) else result


@dataclass(frozen=True)
class Scenario:
    """One row of the change table. looks_at: rules that are left out since they would change values that this program reads, each with a reason."""

    program: Callable[[], Generator[Any, None, None]]
    kind: Kind
    looks_at: dict[Beside, str]

    @property
    def name(self) -> str:
        return self.program.__name__


class Table:
    """The scenarios of one file."""

    def __init__(self) -> None:
        self.scenarios: list[Scenario] = []

    def scenario(self, kind: Kind, looks_at: dict[Beside, str] | None = None) -> Callable[[Any], Scenario]:
        def add(program: Callable[[], Generator[Any, None, None]]) -> Scenario:
            self.scenarios.append(Scenario(program, kind, looks_at or {}))
            return self.scenarios[-1]

        return add


def each(scenarios: list[Scenario]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", scenarios, ids=lambda row: row.name)


def play(row: Scenario, backend: str = "eager") -> None:
    """Run a scenario to its end, and assert that something next to the observed value has been changed."""
    with contextlib.closing(row.program()) as steps:
        changed = follow(row, steps, backend)
    assert changed, f"nothing beside what {row.name} looks at has been changed: {row.kind.beside.value}"


def follow(row: Scenario, steps: Iterator[Any], backend: str) -> bool:
    """Check each step; return whether anything next to the observed value changed. Compiled calls come first: eager's could hide their errors."""
    first = next(steps)
    args, kwargs = first.args, first.kwargs
    compiled = framejit.compile(first.target, backend=backend, dynamic=False)
    function = compiled_function(compiled)
    before = None
    changed = False
    for number, step in enumerate(itertools.chain([first], steps)):
        if step is not first and step.args is not None:
            args, kwargs = step.args, step.kwargs
        count = compilations()
        got = outcome(compiled, args, kwargs)
        again = outcome(compiled, args, kwargs)
        expected = outcome(first.target, args, kwargs)
        where = f"step {number}"
        agree(expected, got, where)
        compare(expected, again, f"{where}, called again")
        made = compilations() - count
        if step is first:
            reasons = framejit.statistics()["reasons"]
            assert len(function.entries) == 1, where
            assert first.traced in (function.entries[0].code is not None, None), f"{where}: {reasons[-1:]}"
        else:
            assert step.compiles in (made > 0, None), f"{where}: {made} compilations"
            if step.differs is not None:
                assert agree_on(before, expected) != step.differs, f"{where}: eager gives {expected}, and gave {before}"
            changed |= step is SAME or (step.compiles, step.differs) == (False, False)
        before = expected
        for beside, rule in RULES.items():
            if beside not in row.looks_at and (beside is row.kind.beside or number < LIMITS.get(beside, math.inf)):
                surroundings = Surroundings([first.target, *args, *kwargs.values()])
                ran = change_beside(lambda: rule(surroundings), beside, compiled, first.target, args, kwargs, where)
                changed |= ran and beside is row.kind.beside
    return changed


def change_beside(rule: Callable[[], Iterator[None]], beside: Beside, compiled: Any, target: Any, args: Any, kwargs: Any, where: str) -> bool:
    """Make a rule's changes and undo them: no call may compile. Return whether the rule has found anything to change."""
    count = compilations()
    found = False
    with contextlib.closing(rule()) as changes:
        for state in itertools.chain(changes, [UNDONE]):
            if state is UNDONE and not found:
                return False
            found = True
            at = f"{where}, {beside.value}{' as it was' if state is UNDONE else ''}"
            got = outcome(compiled, args, kwargs)
            agree(outcome(target, args, kwargs), got, at)
            assert compilations() == count, f"{at}: compiled once more"
    return True


def agree(expected: tuple[str, Any], got: tuple[str, Any], where: str) -> None:
    """Assert that both runs have returned the same, or raised the same."""
    if got[0] != expected[0]:
        raise AssertionError(f"{where}: eager {expected[0]} {expected[1]!r}") from (got if got[0] == "raised" else expected)[1]
    compare(expected, got, where)
