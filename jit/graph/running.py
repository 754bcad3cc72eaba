"""`RunningTrace`, the protocol of the running trace as the parts of its graph see it: they need more of it than Objects do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol, TypeVar

from framejit.breaks import Break
from framejit.errors import UserFrame
from framejit.graph.metadata import UserPlace
from framejit.guards.kinds import Guard
from framejit.guards.source import Call, UserLine
from framejit.objects.core.object import VM, Object

T = TypeVar("T")


class RunningTrace(VM, Protocol):
    """The running trace."""

    call: Call
    """The call that is traced."""

    def met(self, value: object) -> Object | None:
        """The Object of a mutable value from outside, if the trace has met it."""

    def shared_values(self) -> list[Object]:
        """Every value from outside that is mutable or compared by identity and that the trace has met."""

    def meet_in_copy(self, values: Sequence[Object], inputs: Sequence[Object]) -> None:
        """Note values from outside that are mutable or compared by identity, and that a call which was copied would have met; and the inputs of the graph that
        were made for it."""

    def user_stack(self) -> list[UserFrame]:
        """The frames of the traced program, outermost first."""

    def user_places(self) -> tuple[UserPlace, ...]:
        """The places of these frames."""

    def user_line(self) -> UserLine | None:
        """The line of the program that is being traced."""

    def user_range(self) -> tuple[Any, ...]:
        """The range of the program's text that is being traced."""

    def break_known_at(self, text_range: tuple[Any, ...]) -> Break | None:
        """The reason to break at a range of the program's text, if a trace of the compiled function has found one (`restart_for_good`)."""

    def restart_for_good(self, text_range: tuple[Any, ...], reason: Break) -> NoReturn:
        """Restart the trace, to break at this range of the program's text, as later traces of the compiled function and of its resume functions do too."""

    def noting_looks(self, run: Callable[[], T]) -> tuple[T, list[Object]]:
        """The result of `run`, and the values from outside that it has read, including those that were read before."""

    def noting_whether(self, run: Callable[[], T], values: Sequence[Object], lists: Sequence[Object] = ()) -> tuple[T, bool]:
        """The result of `run`, and whether it has read one of these values, or one of these lists other than by an instruction `lists[...][key]`."""

    def rest_on(self, guard: Guard) -> None:
        """Add a guard that was made elsewhere."""

    def rest_on_all(self, guards: Sequence[Guard]) -> None:
        """Add guards that were made elsewhere, in a trace that may copy calls."""

    def is_handling(self) -> bool:
        """Return whether the program is handling an exception that was raised in the trace."""

    def is_in_loop(self) -> bool:
        """Return whether a loop of the program may run the current instruction again in the same trace."""

    @property
    def lookups(self) -> object:
        """The attributes that the trace has found in classes, for the classes that it has looked into."""

    def has_handler(self) -> bool:
        """Return whether the program has a handler for what an operation here raises."""

    def note_handlers(self) -> bool:
        """Note that an operation enters the graph at this instruction. Returns whether the program has a handler for what the operation raises."""
