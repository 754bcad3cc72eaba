"""The guard on the part of torch's global state on which a graph depends, and on other settings that a trace has read."""

from __future__ import annotations

import abc
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import BuiltinFunctionType
from typing import Any, ClassVar

from framejit.guards.kinds import Guard, same_constant
from framejit.guards.source import Call, Root, UserLine
from framejit.program.naming import constant, name_of
from framejit.quick_dataclass import dataclass
from framejit.said import directives
from framejit.torch_state.torch_modes import EQUAL, KEYS, MODES, read_state

Setting = tuple[Callable[..., Any], tuple[Any, ...], Any]
"""A function of torch, or in C, that reads a setting of the process, with its arguments and the plain constant that it returned."""


def setting_text(read: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """A setting in words, for reports."""
    if type(read) is BuiltinFunctionType and read.__self__ is sys.modules:
        return f"{args[0]!r} in sys.modules"
    name = name_of(read)
    return repr(read) if name is None else f"{name}{constant(args)}"


@dataclass(frozen=True, eq=False)
class GlobalState(Guard):
    """torch's global modes and settings on this thread are the same. Made by `global_state_guard`; source: the root.

    read: `read_state`, the reference that the C++ leaf agrees with. state: the values that it returned. names: the names of the modes that have these
    values. settings: further settings that the trace has read.
    """

    read: Callable[[], tuple[Any, ...]]
    state: tuple[Any, ...]
    names: tuple[str, ...]
    settings: tuple[Setting, ...] = ()
    leaf: ClassVar[str] = "global_state"
    cost: ClassVar[int] = 0
    advice: ClassVar[str | None] = "call under the same modes and settings each time; each combination is compiled once"

    def native(self) -> Any:
        if self.read not in (read_state, read_with_directives):
            raise TypeError("a GlobalState guard must hold what torch_modes.read_state gave: the C++ leaf checks nothing else")
        return native_form(self.state, self.settings)

    def check(self, value: Any, call: Call) -> bool:
        return self.read() == self.state and all(same_constant(read(*args), found) for read, args, found in self.settings)

    def expected(self) -> str:
        given = [(name, value) for name, value in zip(self.names, self.state) if value != () and not name.endswith(KEYS)]
        pairs = [f"{name} {value!r}" for name, value in given]
        return "torch's global state: " + ", ".join(pairs + [f"{setting_text(read, args)} {constant(found)}" for read, args, found in self.settings])

    def found(self, value: Any, call: Call) -> str:
        now = self.read()
        differs = [(name, new) for name, old, new in zip(self.names, self.state, now) if old != new]
        changed = [f"other {name}" if name.endswith(KEYS) else f"{name} {new!r}" for name, new in differs]
        settings = [(setting_text(read, args), old, read(*args)) for read, args, old in self.settings]
        changed_settings = [f"{name} {constant(new)}" for name, old, new in settings if not same_constant(new, old)]
        return ", ".join(changed + changed_settings)

    def key(self) -> Any:
        return (self.state, self.settings)


def global_state_guard(root: Root, line: UserLine | None = None) -> GlobalState:
    """Make the guard that the global state is the same as now."""
    return GlobalState(root, line, read_state, read_state(), tuple([mode.name for mode in MODES]))


def read_with_directives() -> tuple[Any, ...]:
    """Read the global state, together with the directives that are in force."""
    return (*read_state(), directives.CURRENT.get())


def with_directives(guard: GlobalState, now: directives.Directives) -> GlobalState:
    """The guard of an entry that also depends on the directives in force, since it contains a graph break, or changes them."""
    if guard.read is read_with_directives:
        return guard
    return replace(guard, read=read_with_directives, state=(*guard.state, now), names=(*guard.names, "directives to the tracer"))


def with_setting(guard: GlobalState, setting: Setting) -> GlobalState:
    """The guard of an entry that depends on one more setting."""
    return guard if setting in guard.settings else replace(guard, settings=(*guard.settings, setting))


def renewed(guards: Sequence[Guard]) -> tuple[Guard, ...]:
    """Guards, of which those on abc's counter expect the present count. Everything that depends on it must have been asked again."""
    return tuple([with_present_counter(guard) if isinstance(guard, GlobalState) else guard for guard in guards])


def with_present_counter(guard: GlobalState) -> GlobalState:
    settings = [(read, args, read() if read is abc.get_cache_token else found) for read, args, found in guard.settings]
    return replace(guard, settings=tuple(dict.fromkeys(settings)))


def native_form(state: tuple[Any, ...], settings: tuple[Setting, ...] = ()) -> tuple[Any, ...]:
    """The payload of the C++ leaf: the values that it reads from c10, and a function for each other part of the state and for each other setting."""
    of_c10 = [value for mode, value in zip(MODES, state) if mode.probes is None]
    probes = [probe for mode, value in zip(MODES, state) if mode.probes is not None for probe in mode.probes(value)]
    probes += [(read, arguments, found, EQUAL) for read, arguments, found in settings]
    probes += [(directives.CURRENT.get, (), regions, EQUAL) for regions in state[len(MODES) :]]
    return (*of_c10, tuple(probes))
