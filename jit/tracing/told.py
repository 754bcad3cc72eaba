"""What the program is told when it asks whether it is compiled, with `torch.compiler.is_compiling()` and its like.

    if mask is None and not torch.compiler.is_compiling():
        mask = torch.ones(x.shape[-1])
    return x * mask[None]      # TypeError, where the program has been told that it is compiled

It is told so, unless it then runs into an exception that leaves the compiled function. Uncompiled it is told otherwise, and may never meet that
exception. So the trace is restarted, and tells it "no" where it last asked near the place of the exception; then, if that doesn't help, everywhere.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from framejit import logs
from framejit.errors import UserFrame
from framejit.report import place
from framejit.trail import Trail

Asked = tuple[UserFrame, ...]
"""A place where the program asks: its frames, outermost first."""


class Untold(Exception):
    """Signal: the trace is restarted, and tells the program at none of these places that it is compiled."""

    def __init__(self, places: Container[Asked]) -> None:
        super().__init__(places)
        self.places = places


class Everywhere:
    """All places."""

    def __contains__(self, place: object) -> bool:
        return True


EVERYWHERE = Everywhere()


class Answers:
    """What one trace tells the program.

    Attributes:
        withholds: the places where it doesn't tell it that it is compiled.
        told, withheld: the places where the program has asked so far, by the answer. Changed through the trail.
    """

    def __init__(self, trail: Trail, withholds: Container[Asked]) -> None:
        self.withholds = withholds
        self.told: tuple[Asked, ...] = ()
        self.withheld: tuple[Asked, ...] = ()
        self._trail = trail

    def at(self, stack: Sequence[UserFrame]) -> bool:
        """The answer at a place of the program: whether it is compiled."""
        asked = tuple(stack)
        is_told = asked not in self.withholds
        known = self.told if is_told else self.withheld
        if asked not in known:
            self._trail.set(self, "told" if is_told else "withheld", (*known, asked))
        return is_told

    def after_raise(self, stack: Sequence[UserFrame], known: frozenset[Asked], reason: object) -> Untold:
        """The signal to restart a trace that has told the program that it is compiled, and has seen it raise here. `known`: what no trace tells it."""
        nearest = max(self.told, key=lambda asked: (shared(asked, stack), self.told.index(asked)))
        logs.info(
            "fallbacks",
            f"{reason} at {place(stack)}, where it has been told that it is compiled: traced once more, without telling it so at {place(nearest)}",
        )
        return Untold(known | {nearest} if self.withholds == known else EVERYWHERE)


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
