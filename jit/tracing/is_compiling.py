"""The answers to the program's question whether it is compiled (`torch.compiler.is_compiling()` and similar functions).

    if mask is None and not torch.compiler.is_compiling():
        mask = torch.ones(x.shape[-1])
    return x * mask[None]      # TypeError, where the program has been told that it is compiled

The answer is yes, unless the program then runs into an exception that leaves the compiled function. Uncompiled it gets the other answer, and may never meet
that exception. So the trace is restarted, and answers "no" where the program last asked near the place of the exception; if that doesn't help, at one more
place, and then everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from framejit import logs
from framejit.errors import UserFrame
from framejit.quick_dataclass import dataclass
from framejit.report import place
from framejit.trail import Trail

Asked = tuple[UserFrame, ...]
"""A place where the program asks: its frames, outermost first."""


ATTEMPTS = 2
"""The number of restarts of a trace that each withhold the answer at one more place, before it is withheld everywhere."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """The places where the program isn't told that it is compiled. `places`: None for everywhere; `attempts`: the number of places added by restarts."""

    places: frozenset[Asked] | None = frozenset()
    attempts: int = 0

    def covers(self, asked: Asked) -> bool:
        """Return whether the answer is withheld at a place."""
        return self.places is None or asked in self.places


class AnswerWithheld(Exception):
    """Signal: the trace is restarted, and withholds these answers."""

    def __init__(self, withheld: Withheld) -> None:
        super().__init__(withheld)
        self.withheld = withheld


class Answers:
    """The answers of one trace to the program. `where`: returns the frames of the program's present place.

    Attributes:
        withholds: the places where the program isn't told that it is compiled.
        answered_yes, withheld: the places where the program has asked so far, by the answer. Changed through the trail.
    """

    def __init__(self, trail: Trail, withholds: Withheld, where: Callable[[], Sequence[UserFrame]]) -> None:
        self.withholds = withholds
        self.answered_yes: tuple[Asked, ...] = ()
        self.withheld: tuple[Asked, ...] = ()
        self._trail = trail
        self._where = where

    def here(self) -> bool:
        """The answer at the program's present place: whether it is compiled."""
        asked = tuple(self._where())
        is_yes = not self.withholds.covers(asked)
        known = self.answered_yes if is_yes else self.withheld
        if asked not in known:
            self._trail.set(self, "answered_yes" if is_yes else "withheld", (*known, asked))
        return is_yes

    def count(self) -> int:
        """The number of places at which the program has been told that it is compiled."""
        return len(self.answered_yes)

    def after_raise(self, stack: Sequence[UserFrame], reason: object) -> AnswerWithheld:
        """The signal to restart a trace that has told the program that it is compiled, and in which the program raises here."""
        nearest = max(self.answered_yes, key=lambda asked: (shared(asked, stack), self.answered_yes.index(asked)))
        logs.info(
            "fallbacks",
            f"{reason} at {place(stack)}, where it has been told that it is compiled: traced once more, without telling it so at {place(nearest)}",
        )
        places, attempts = self.withholds.places, self.withholds.attempts
        if places is None or attempts >= ATTEMPTS:
            return AnswerWithheld(Withheld(None))
        return AnswerWithheld(Withheld(places | {nearest}, attempts + 1))

    def after_raise_inside(self, count: int) -> None:
        """A function that is to become an inner graph raises. If the program has been told in it that it is compiled, restart the trace, a few
        times at most. `count`: the number of places at which it had been told so before."""
        if len(self.answered_yes) > count and self.withholds.attempts < ATTEMPTS:
            raise self.after_raise(self.answered_yes[-1], "the program raises in a function that an operator takes")


def shared(asked: Asked, stack: Sequence[UserFrame]) -> int:
    """The number of frames that two places have in common: the calls in them, and the function that these lead to."""
    count = 0
    for mine, other in zip(asked, stack):
        if (mine.filename, mine.function) != (other.filename, other.function):
            break
        count += 1
        if mine != other:
            break
    return count
