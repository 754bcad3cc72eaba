"""Guards of a backward pass: code of the program's that autograd runs later was traced with the forward pass, and rests on functions, classes and modules.

That these have changed by then is an error, when gradients come to a result of the graph: the backward pass that is compiled would not be the program's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from framejit.guards.build import build
from framejit.guards.kinds import Guard
from framejit.guards.source import MISSING, Call, Source


def nothing() -> None:
    pass


FUNCTION: Any = nothing
"""The function of the call of which the guards are asked: none of them is about a call."""
CALL = Call((), FUNCTION, None)


def steps_of(source: Source) -> Iterator[Source]:
    """The steps of a path behind its root, the last one first."""
    while source.base is not None:
        yield source
        source = source.base


class BackwardGuards:
    """The guards, for all calls of one graph."""

    def __init__(self, guards: Sequence[Guard]) -> None:
        steps = dict.fromkeys(step for guard in guards for step in steps_of(guard.source))
        self._built = build(guards, (), [step for step in steps if step.fetch(CALL) is not MISSING])

    def hold(self) -> Any:
        """What the guards compare with, which has to live on until the backward pass. None if they don't hold any more."""
        return self._built.tree.match((), FUNCTION)

    def check(self) -> None:
        """Raise RuntimeError if a guard doesn't hold."""
        if self._built.tree.match((), FUNCTION) is not None:
            return
        number = self._built.tree.failing((), FUNCTION)
        said = ""
        if number is not None and number >= 0:
            guard = self._built.guards[number]
            said = f": {guard.source.describe()}, of which is expected that it {guard.expected()}"
        raise RuntimeError(f"the backward pass was compiled with the forward pass, and what it uses has changed since{said}")
