"""The answers to the program's question whether it is compiled (`torch.compiler.is_compiling()` and similar functions).

    if mask is None and not torch.compiler.is_compiling():
        mask = torch.ones(x.shape[-1])
    return x * mask[None]      # TypeError, where the program has been told that it is compiled

The answer is yes, unless the program then runs into an exception that leaves the compiled function. Uncompiled it gets the other answer, and may never meet
that exception. So the trace is restarted, and answers "no" where the program last asked near the place of the exception; if that doesn't help, at one more
place, and then everywhere. Answers whose consequences outlast the trace are withheld before that: see consequences.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from framejit import logs
from framejit.ceval.frame import Frame
from framejit.errors import UserFrame
from framejit.objects.core.object import Object
from framejit.quick_dataclass import dataclass
from framejit.report import place
from framejit.tracing import consequences
from framejit.tracing.consequences import AnsweredBranch, Asked, DecidedChange
from framejit.tracing.trace import Trace

ATTEMPTS = 2
"""The number of restarts of a trace that each withhold the answer at one more place, before it is withheld everywhere."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """The places where the program isn't told that it is compiled. `places`: None for everywhere; `attempts`: the number of places added by restarts.

    `is_one_graph`: the call must be one graph, which the other answer might split, so the answer is withheld only if the program raises.
    """

    places: frozenset[Asked] | None = frozenset()
    attempts: int = 0
    is_one_graph: bool = False

    def covers(self, asked: Asked) -> bool:
        """Return whether the answer is withheld at a place."""
        return self.places is None or asked in self.places


class AnswerWithheld(Exception):
    """Signal: the trace is restarted, and withholds these answers."""

    def __init__(self, withheld: Withheld, later_too: frozenset[Asked] = frozenset()) -> None:
        super().__init__(withheld)
        self.withheld = withheld
        self.later_too = later_too
        """Those of the places where later traces of the function withhold the answer too, without having tried it."""


class Answers:
    """The answers of one trace to the program.

    Attributes:
        withholds: the places where the program isn't told that it is compiled.
        answered_yes, withheld: the places where the program has asked so far, by the answer. Changed through the trail.
        decisions, changes: the program's branches on the answer yes, in frames that haven't ended, and its changes of values from outside that depend on that
            answer. Changed through the trail.
    """

    def __init__(self, vm: Trace, withholds: Withheld) -> None:
        self.withholds = withholds
        self.answered_yes: tuple[Asked, ...] = ()
        self.withheld: tuple[Asked, ...] = ()
        self.decisions: tuple[AnsweredBranch, ...] = ()
        self.changes: tuple[DecidedChange, ...] = ()
        self._vm = vm

    def here(self) -> tuple[Asked, bool]:
        """The program's present place, and the answer there: whether it is compiled."""
        asked = tuple(self._vm.user_stack())
        is_yes = not self.withholds.covers(asked)
        known = self.answered_yes if is_yes else self.withheld
        if asked not in known:
            self._vm.trail.set(self, "answered_yes" if is_yes else "withheld", (*known, asked))
        return asked, is_yes

    def decide(self, asked: Asked) -> None:
        """The program branches here on an answer that it got at a place."""
        frame = self._vm.frame
        made = consequences.decision(frame, asked) if isinstance(frame, Frame) else None
        if made is not None:
            self._vm.trail.set(self, "decisions", (*(each for each in self.decisions if not each.frame.has_ended), made))

    def returned(self, frame: Frame, result: Object) -> Object:
        """What a frame returns, which may be a constant that depends on an answer."""
        return consequences.returned(self.decisions, frame, result) if self.decisions else result

    def has_changed(self, obj: Object) -> None:
        """A value from outside changes here. Note whether the program decides that by an answer."""
        found = consequences.changes(self.decisions, obj) if self.decisions else []
        if found:
            self._vm.trail.set(self, "changes", (*self.changes, *found))

    def check_end(self) -> None:
        """The trace has reached its end. If the program has decided by an answer what it changes, restart the trace, and give the other one."""
        self._withhold(self._outlasting(self.changes), "what it changes")

    def check_split(self, frames: Sequence[Frame], stack: Sequence[UserFrame], reason: object) -> None:
        """A call is to be split in these frames. If the program decides by an answer how they go on, restart the trace, and give the other one."""
        if not self.answered_yes:
            return
        self._withhold(self._outlasting(each for each in self.changes if each.is_shared), "what it changes")
        self._withhold(consequences.of_split(self.decisions, frames), "what follows a graph break")
        if any(frame.handled is not None and frame.handled.source is None for frame in frames) and not self.withholds.is_one_graph:
            raise self.after_raise(stack, reason)  # the exception that is handled may be one that the program meets only for that answer

    def _outlasting(self, changes: Iterable[DecidedChange]) -> set[Asked]:
        """The places at which the program has got the answers by which it has decided those of these changes that outlast the trace."""
        return {each.asked for each in changes if consequences.outlasts(each.obj, self._vm.call)}

    def _withhold(self, asked: set[Asked], what: str) -> None:
        """Restart the trace, and withhold the answer at these places."""
        places = self.withholds.places
        if asked and places is not None and not self.withholds.is_one_graph:
            logs.info("fallbacks", f"{what} depends on whether it is compiled: traced once more, without telling it so at {place(min(asked, key=len))}")
            raise AnswerWithheld(replace(self.withholds, places=places | asked), frozenset(asked))

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
            return AnswerWithheld(replace(self.withholds, places=None))
        return AnswerWithheld(replace(self.withholds, places=places | {nearest}, attempts=attempts + 1))

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
