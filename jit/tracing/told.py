"""What the program is told when it asks whether it is compiled, with `torch.compiler.is_compiling()` and its like.

    if mask is None and not torch.compiler.is_compiling():
        mask = torch.ones(x.shape[-1])
    return x * mask[None]      # TypeError, where the program has been told that it is compiled

It is told so, unless it then runs into an exception that leaves the compiled function. Uncompiled it is told otherwise, and may never meet that
exception. So the trace is restarted, and tells it "no" where it last asked near the place of the exception; if that doesn't help, at one place more, and then
everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from framejit import logs
from framejit.errors import UserFrame
from framejit.report import place
from framejit.trail import Trail

Asked = tuple[UserFrame, ...]
"""A place where the program asks: its frames, outermost first."""


ATTEMPTS = 2
"""How often a trace is restarted to withhold the answer at one place more, before it is withheld everywhere."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """Where the program isn't told that it is compiled. `places`: None for everywhere; `attempts`: how many of them restarts have added."""

    places: frozenset[Asked] | None = frozenset()
    attempts: int = 0

    def covers(self, asked: Asked) -> bool:
        """Whether the answer is withheld at a place."""
        return self.places is None or asked in self.places


class Untold(Exception):
    """Signal: the trace is restarted, and withholds these answers."""

    def __init__(self, withheld: Withheld) -> None:
        super().__init__(withheld)
        self.withheld = withheld


class Answers:
    """What one trace tells the program. `where`: gives the frames of the place where the program is.

    Attributes:
        withholds: the places where it doesn't tell it that it is compiled.
        told, withheld: the places where the program has asked so far, by the answer. Changed through the trail.
    """

    def __init__(self, trail: Trail, withholds: Withheld, where: Callable[[], Sequence[UserFrame]]) -> None:
        self.withholds = withholds
        self.told: tuple[Asked, ...] = ()
        self.withheld: tuple[Asked, ...] = ()
        self._trail = trail
        self._where = where

    def here(self) -> bool:
        """The answer where the program is now: whether it is compiled."""
        asked = tuple(self._where())
        is_told = not self.withholds.covers(asked)
        known = self.told if is_told else self.withheld
        if asked not in known:
            self._trail.set(self, "told" if is_told else "withheld", (*known, asked))
        return is_told

    def count(self) -> int:
        """At how many places the program has been told that it is compiled."""
        return len(self.told)

    def after_raise(self, stack: Sequence[UserFrame], reason: object) -> Untold:
        """The signal to restart a trace that has told the program that it is compiled, and has seen it raise here."""
        nearest = max(self.told, key=lambda asked: (shared(asked, stack), self.told.index(asked)))
        logs.info(
            "fallbacks",
            f"{reason} at {place(stack)}, where it has been told that it is compiled: traced once more, without telling it so at {place(nearest)}",
        )
        places, attempts = self.withholds.places, self.withholds.attempts
        if places is None or attempts >= ATTEMPTS:
            return Untold(Withheld(None))
        return Untold(Withheld(places | {nearest}, attempts + 1))

    def after_raise_inside(self, count: int) -> None:
        """A function that is to become a graph inside the graph raises. Where the program has been told in it that it is compiled, restart the trace, a few
        times at most. `count`: at how many places it had been told so before."""
        if len(self.told) > count and self.withholds.attempts < ATTEMPTS:
            raise self.after_raise(self.told[-1], "the program raises in a function that an operator takes")


def shared(asked: Asked, stack: Sequence[UserFrame]) -> int:
    """How many frames two places have in common: the calls in them, and the function that these lead to."""
    count = 0
    for mine, other in zip(asked, stack):
        if (mine.filename, mine.function) != (other.filename, other.function):
            break
        count += 1
        if mine != other:
            break
    return count
