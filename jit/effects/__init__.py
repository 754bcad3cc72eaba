"""The ordered log of what the trace changes outside itself: what comes before the graph, mutated objects, each replayed once, then effects of no object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from framejit.bytecode.instruction import NO_POSITION, Position
from framejit.objects.object import Codegen, Object, settle
from framejit.trail import Trail


class Effect(Protocol):
    """Something to be done for real after the graph has run: an Object with a source that was mutated, or a change of global state."""

    def replay(self, cg: Codegen) -> None:
        """Emit the code that does it; it leaves the stack as it was."""

    def referents(self) -> list[Object]:
        """The Objects that `replay` loads, apart from the effect itself."""


class EffectsTrace(Protocol):
    """What the log needs of the running trace."""

    trail: Trail

    def root_position(self) -> Position:
        """Where in the traced frame's code the program is, inlined calls seen from their caller."""


@dataclass(frozen=True, slots=True)
class Logged:
    """An effect, and where in the traced frame it first took place."""

    effect: Effect
    position: Position = NO_POSITION


class Effects:
    """The effects of one trace, in order of their first occurrence. Undone with the trail."""

    __slots__ = ("_tracer", "_first", "_mutated", "_last")

    def __init__(self, tracer: EffectsTrace) -> None:
        self._tracer = tracer
        self._first: list[Logged] = []
        self._mutated: dict[int, Logged] = {}
        self._last: list[Logged] = []

    def mutated(self, obj: Object) -> None:
        """The state of a value that came from outside differs from the real one; its `replay` makes it so. Idempotent.

        A value made by the trace needs no replay: whoever builds it builds its last state.
        """
        obj = settle(obj)
        if obj.source is None:
            return
        first = id(obj) not in self._mutated
        if first:
            self._mutated[id(obj)] = Logged(obj, self._tracer.root_position())
        self._tracer.trail.log(self._take_back, obj, first)

    def _take_back(self, obj: Object, first: bool) -> None:
        if first:
            del self._mutated[id(obj)]

    def in_order(self, effect: Effect) -> None:
        """An effect that is no object's mutation, and is replayed after the mutations that have begun before it."""
        self._mutated[id(effect)] = Logged(effect, self._tracer.root_position())
        self._tracer.trail.log(self._take_back_call, effect)

    def _take_back_call(self, effect: Effect) -> None:
        del self._mutated[id(effect)]

    def at_start(self, effect: Effect) -> None:
        """An effect that is replayed before the graph runs, which doesn't depend on it; it loads nothing but values from outside.

        Calls that run uncompiled where their graph raises do without it, so what it changes must be changed after the graph as well.
        """
        self._first.append(Logged(effect, self._tracer.root_position()))
        self._tracer.trail.log(self._take_back_first)

    def _take_back_first(self) -> None:
        self._first.pop()

    def at_end(self, effect: Effect) -> None:
        """An effect that is no object's mutation: global modes, generators. Replayed after all mutations, in order."""
        self._last.append(Logged(effect, self._tracer.root_position()))
        self._tracer.trail.log(self._take_back_last)

    def _take_back_last(self) -> None:
        self._last.pop()

    def has_changed_since(self, mark: int) -> bool:
        """Whether anything outside the trace has been changed since a position of the trail, be it for the first time or once more."""
        changes = (Effects._take_back, Effects._take_back_call, Effects._take_back_last)
        return any(getattr(undo, "__func__", None) in changes for undo, _ in self._tracer.trail.since(mark))

    def mutated_since(self, mark: int) -> Iterator[Object]:
        """The values from outside that have been announced as mutated since a position of the trail."""
        return (args[0] for undo, args in self._tracer.trail.since(mark) if getattr(undo, "__func__", None) is Effects._take_back)

    def mutated_before_and_since(self, mark: int) -> Iterator[Object]:
        """The values from outside whose one replay belongs before as well as after a position of the trail."""
        later = [(args[0], args[1]) for undo, args in self._tracer.trail.since(mark) if getattr(undo, "__func__", None) is Effects._take_back]
        first = {id(obj) for obj, is_first in later if is_first}
        return (obj for obj, _ in later if id(obj) not in first)

    def is_mutated(self, obj: Object) -> bool:
        """Whether the value from outside was announced as mutated."""
        return id(settle(obj)) in self._mutated

    def before_graph(self) -> list[Logged]:
        """What is to be replayed before the graph runs, in order."""
        return [*self._first]

    def order(self) -> list[Logged]:
        """Everything to be replayed after the graph, in order: iterators from outside first, as none was stepped after a change of what it runs over."""
        mutated = sorted(self._mutated.values(), key=lambda logged: not isinstance(logged.effect, Object) or not logged.effect.replays_first)
        return [*mutated, *self._last]

    def all(self) -> list[Effect]:
        """Every effect so far."""
        return [logged.effect for logged in (*self._first, *self._mutated.values(), *self._last)]

    def __len__(self) -> int:
        return len(self._mutated) + len(self._last)
