"""`GuardRecorder`, which collects the guards of a trace: facts about values, relations between paths, and settings of the process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from framejit.guards.global_state import global_state_guard, with_directives, with_setting
from framejit.guards.kinds import Guard, same_constant
from framejit.guards.relations import Relation
from framejit.guards.source import Root, Source, UserLine
from framejit.said.directives import Directives
from framejit.trail import Trail


class Vouched(NamedTuple):
    """A call of a function, with plain constants as its arguments and its result, that gives the same as long as the process lives."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    result: Any

    def holds(self) -> bool:
        """Return whether the call gives the same now."""
        try:
            return same_constant(self.function(*self.args, **dict(self.kwargs)), self.result)
        except Exception:
            return False


class GuardRecorder:
    """The guards of one trace. Facts and relations are undone with the trail; settings stay, since the trace may have acted on them.

    `line`: the place in the program where the trace is now, which each new guard remembers.

    Attributes:
        of_process: what the trace has found out that no guard checks, because it stays as long as the process lives, but may be different in another one:
            an address, the hash of a str, the order of a set. Empty if there is nothing.
        vouched: calls of functions whose authors vouch that the result stays as long as the process lives.
    """

    def __init__(self, trail: Trail, root: Root, line: Callable[[], UserLine | None]) -> None:
        self._trail = trail
        self._line = line
        self._settings = global_state_guard(root)
        self._guards: list[Guard] = []
        self.of_process = ""
        self.vouched: list[Vouched] = []

    def relation(self, kind: type[Relation], source: Source, *payload: Any) -> None:
        """Add a guard on a relation between the values at several paths, the first of which is `source`."""
        self.add(kind(source, self._line(), *payload))

    def read(self, read: Callable[..., Any], *args: Any) -> Any:
        """Read a setting of the process with a function of torch, or in C, and guard its value, which must be a plain constant."""
        return self.setting(read, args, read(*args))

    def setting(self, read: Callable[..., Any], args: tuple[Any, ...], found: Any) -> Any:
        """Guard that a setting, read by `read(*args)`, is `found`, its value when the trace began. The trace itself may have changed the setting meanwhile."""
        self._settings = with_setting(self._settings, (read, args, found))
        return found

    def rest_on_process(self, what: str) -> None:
        """Note that the trace depends on something that is different in other processes, and that no guard checks."""
        self.of_process = self.of_process or what

    def directives(self, in_force: Directives) -> None:
        """Guard that these directives are in force when the call begins."""
        self._settings = with_directives(self._settings, in_force)

    def add(self, guard: Guard) -> None:
        """Add a guard on the value at the end of a path."""
        self._guards.append(guard)
        self._trail.learned(guard, self._guards.pop)

    def count(self) -> int:
        """The number of facts and relations, as `since` takes it."""
        return len(self._guards)

    def since(self, count: int) -> list[Guard]:
        """The facts and relations after the first `count`."""
        return self._guards[count:]

    def adopt(self, guards: Iterable[Guard]) -> None:
        """Add guards again that had been undone."""
        for guard in guards:
            self.add(guard)

    def all(self) -> tuple[Guard, ...]:
        """All guards of the trace."""
        return (self._settings, *self._guards)
