"""What a trace rests on, as it is found out: facts about values, relations between paths, settings of the process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from framejit.directives import Directives
from framejit.guards.global_state import global_state_guard, with_directives, with_setting
from framejit.guards.kinds import Guard
from framejit.guards.relations import Relation
from framejit.guards.source import Root, Source, UserLine
from framejit.trail import Trail


class GuardRecorder:
    """The guards of one trace. Facts and relations are taken back with the trail; settings stay, as the trace may have acted on them.

    `line`: where the program is now; each guard remembers it.
    """

    def __init__(self, trail: Trail, root: Root, line: Callable[[], UserLine | None]) -> None:
        self._trail = trail
        self._line = line
        self._settings = global_state_guard(root)
        self._guards: list[Guard] = []

    def relation(self, kind: type[Relation], source: Source, *payload: Any) -> None:
        """Something holds between the values at the ends of several paths, the first of which is `source`."""
        self.add(kind(source, self._line(), *payload))

    def read(self, read: Callable[..., Any], *args: Any) -> Any:
        """What a function in C, or of torch's, says of a setting of the process, from now on guarded. It must be a plain constant."""
        return self.setting(read, args, read(*args))

    def setting(self, read: Callable[..., Any], args: tuple[Any, ...], found: Any) -> Any:
        """`found`, which `read(*args)` has said of the process when the trace began. The trace itself may have changed what it says."""
        self._settings = with_setting(self._settings, (read, args, found))
        return found

    def directives(self, in_force: Directives) -> None:
        """Guard that the given directives to the tracer are in force where the call begins."""
        self._settings = with_directives(self._settings, in_force)

    def add(self, guard: Guard) -> None:
        """A guard that has been made: something holds for the value at the end of a path."""
        self._guards.append(guard)
        self._trail.log(self._guards.pop)

    def count(self) -> int:
        """How many facts and relations there are, for `since`."""
        return len(self._guards)

    def since(self, count: int) -> list[Guard]:
        """The facts and relations that came after the first `count`."""
        return self._guards[count:]

    def adopt(self, guards: Iterable[Guard]) -> None:
        """Rest on guards that had been taken back."""
        for guard in guards:
            self.add(guard)

    def all(self) -> tuple[Guard, ...]:
        """Everything that the trace rests on."""
        return (self._settings, *self._guards)
