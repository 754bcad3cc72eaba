"""`GuardRecorder`, which collects the guards of a trace: facts about values, relations between paths, and settings of the process."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from framejit.guards.global_state import global_state_guard, renewed, with_directives, with_setting
from framejit.guards.kinds import Guard, same_constant
from framejit.guards.relations import Relation
from framejit.guards.source import Reference, Root, Source, UserLine
from framejit.said.directives import Directives
from framejit.trail import Trail


class Vouched(NamedTuple):
    """A call of a function, with plain constants or References as its arguments and a plain constant as its result, that is made again in later processes."""

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
        vouched: calls of functions that give the same as long as the process lives, or as long as abc's counter stays.
    """

    def __init__(self, trail: Trail, root: Root, line: Callable[[], UserLine | None]) -> None:
        self._trail = trail
        self._line = line
        self._settings = global_state_guard(root)
        self._guards: list[Guard] = []
        self.of_process = ""
        self.vouched: list[Vouched] = []
        self._asked: dict[tuple[Any, ...], tuple[tuple[Any, ...], Vouched]] = {}

    def relation(self, kind: type[Relation], source: Source, *payload: Any) -> None:
        """Add a guard on a relation between the values at several paths, the first of which is `source`."""
        self.add(kind(source, self._line(), *payload))

    def read(self, read: Callable[..., Any], *args: Any) -> Any:
        """Read a setting of the process with a function of torch, or in C, and guard its value, which must be a plain constant."""
        return self.setting(read, args, read(*args))

    def vouch(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function that takes References in the place of classes. Its result stays as long as the process lives; later processes ask again."""
        given = tuple([Reference(arg) if issubclass(type(arg), type) else arg for arg in args])
        result = function(*given)
        key = (function, *map(id, args), result)
        if key not in self._asked:
            self._asked[key] = args, Vouched(function, given, (), result)  # the arguments are kept alive, so that no id is used again
            self.vouched.append(self._asked[key][1])
        return result

    def vouch_for_abc(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call such a function whose result changes only if a class is registered with an abstract base class. abc's own counter of these is guarded."""
        self.read(abc.get_cache_token)
        return self.vouch(function, *args)

    def renewed(self, guards: Sequence[Guard]) -> tuple[Guard, ...]:
        """Guards of this trace. If abc's counter has moved since, as by an import, but all results are as they were, they expect the present count."""
        return renewed(guards) if all(asked.holds() for _, asked in self._asked.values()) else tuple(guards)

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

    def adopt(self, guards: Sequence[Guard]) -> None:
        """Add guards that were made elsewhere, or had been undone."""
        self._guards += guards
        self._trail.learned_each(guards, self._guards.pop)

    def all(self) -> tuple[Guard, ...]:
        """All guards of the trace."""
        return (self._settings, *self._guards)
