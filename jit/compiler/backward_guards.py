"""Guards of a backward pass. Code of the program that autograd runs later was traced with the forward pass, and depends on functions, classes and modules.

If these have changed when gradients arrive at a result of the graph, that is an error: the compiled backward pass would not be the program's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from framejit.guards.build import build
from framejit.guards.kinds import Guard
from framejit.guards.source import MISSING, Call, Source
from framejit.saved.names import Absent


def nothing() -> None:
    pass


FUNCTION: Any = nothing
"""A stand-in for the called function: guards are checked for a call, but none of these guards is about one."""
CALL = Call((), FUNCTION, None)


def steps_of(source: Source) -> Iterator[Source]:
    """The steps of a path after its root, the last one first."""
    while source.base is not None:
        yield source
        source = source.base


class BackwardGuards:
    """The guards of the backward passes of one graph, for all its calls."""

    def __init__(self, guards: Sequence[Guard]) -> None:
        steps = dict.fromkeys(step for guard in guards for step in steps_of(guard.source))
        self._built = build(guards, (), [step for step in steps if step.fetch(CALL) is not MISSING])

    def __reduce__(self) -> Any:
        return backward_guards_again, (self._built.guards,)

    def hold(self) -> Any:
        """The objects that the guards compare with, which must stay alive until the backward pass. None if the guards don't hold any more."""
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


def backward_guards_again(guards: Sequence[Guard]) -> BackwardGuards:
    """The guards of backward passes that an earlier process has compiled. Raises Absent if one doesn't hold in this process."""
    made = BackwardGuards(guards)
    if made.hold() is None:
        raise Absent("something that the backward pass uses has changed")
    return made
