"""Scenarios of change: programs whose surroundings change between calls, and whether a change has to compile once more.

A scenario is a generator function. It first yields `start(callable, arguments ...)`; then, each time after having changed something,
NEW where the change has to compile once more, BACK where what was there before has returned, SAME where the change is none of the
program's business. `NEW.of(...)` calls with other arguments from there on. After each step eager and compiled must agree.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import types
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from agreement import Comparison, outcome

import framejit
from framejit._runtime import CompiledFunction


@dataclass(frozen=True)
class Start:
    """The callable and its arguments. traced: it has to be compiled, rather than to run as written."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    traced: bool | None


@dataclass(frozen=True)
class Step:
    """What a change has to lead to. differs: eager's result is another one than before, which proves the scenario itself."""

    compiles: bool | None
    differs: bool | None
    args: tuple[Any, ...] | None = None
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    drops: bool = False

    def of(self, *args: Any, **kwargs: Any) -> Step:
        """This step with other arguments."""
        return dataclasses.replace(self, args=args, kwargs=kwargs)


def start(target: Any, *args: Any, **kwargs: Any) -> Start:
    """The first step of a scenario."""
    return Start(target, args, kwargs, True)


def start_as_written(target: Any, *args: Any, **kwargs: Any) -> Start:
    """The first step of a scenario whose program isn't traced yet: what the fallback rests on is guarded all the same."""
    return Start(target, args, kwargs, False)


def start_any(target: Any, *args: Any, **kwargs: Any) -> Start:
    """The first step of a scenario whose program may be traced or not."""
    return Start(target, args, kwargs, None)


NEW = Step(True, True)
NEW_UNSEEN = Step(True, None)
"""Compiles once more, though the result may be the same."""
BACK = Step(False, None)
SAME = Step(False, False)
AFRESH = Step(True, True, drops=True)
"""As NEW, but everything compiled before is thrown away."""
EITHER = Step(None, None)
"""Whether it compiles is open; the result is not."""
OTHER = Step(False, True)
"""Another result, from the same compiled code."""


def compiled_function(compiled: Any) -> CompiledFunction:
    """The CompiledFunction behind what `framejit.compile` gave."""
    if isinstance(compiled, types.MethodType):
        compiled = compiled.__func__
    return compiled if isinstance(compiled, CompiledFunction) else type(compiled).__call__


def compilations() -> int:
    """How often a frame has been compiled, or found to be one that runs as written; resumed ones too."""
    counts = framejit.statistics()
    return sum(counts[name] for name in ("frames", "fallbacks"))


def compare(a: Any, b: Any, where: str) -> None:
    """Past the modes that the scenario has set."""
    with torch._C.DisableTorchFunction():
        Comparison().same(a, b, where)


def agree_on(a: Any, b: Any) -> bool:
    try:
        compare(a, b, "")
    except AssertionError:
        return False
    return True


def play(scenario: Callable[[], Generator[Any, None, None]], backend: str = "eager") -> None:
    """Run a scenario to its end. The compiled call comes first: what it wrongly keeps would otherwise be hidden by eager's."""
    with contextlib.closing(scenario()) as steps:
        follow(steps, backend)


def follow(steps: Iterator[Any], backend: str) -> None:
    """Run and check step after step."""
    first = next(steps)
    args, kwargs = first.args, first.kwargs
    compiled = framejit.compile(first.target, backend=backend)
    function = compiled_function(compiled)
    before = None
    for number, step in enumerate(itertools.chain([first], steps)):
        if step is not first and step.args is not None:
            args, kwargs = step.args, step.kwargs
        count = compilations()
        got = outcome(compiled, args, kwargs)
        again = outcome(compiled, args, kwargs)
        expected = outcome(first.target, args, kwargs)
        where = f"step {number}"
        if got[0] != expected[0]:
            raise AssertionError(f"{where}: eager {expected[0]} {expected[1]!r}") from (got if got[0] == "raised" else expected)[1]
        compare(expected, got, where)
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
        before = expected
