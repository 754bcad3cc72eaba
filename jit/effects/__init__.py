"""The ordered log of changes that a trace makes to outside values: effects before the graph, mutated objects, and other effects, such as modes.

Each mutated object is replayed once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from framejit.bytecode.instruction import NO_POSITION, Position
from framejit.objects.object import Codegen, Object, settle
from framejit.trail import Trail


class Effect(Protocol):
    """A change that is made for real after the graph has run: an Object with a source that was mutated, or a change of global state."""

    def replay(self, cg: Codegen) -> None:
        """Emit the code that makes the change. It leaves the stack as it was."""

    def referents(self) -> list[Object]:
        """The Objects that `replay` loads, apart from the effect itself."""


class EffectsTrace(Protocol):
    """The part of the running trace that the log needs."""

    trail: Trail

    def root_position(self) -> Position:
        """The position in the traced frame's code. Inside an inlined call, it is that of the call."""


@dataclass(frozen=True, slots=True)
class Logged:
    """An effect, and the position in the traced frame at which it first took place."""

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
        """Note that the state of a value from outside differs from that of the real object, which its `replay` will change. Calling this again does nothing.

        A value made by the trace needs no replay, since it is built in its last state.
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
        """Add an effect that isn't the mutation of an object. It is replayed after the mutations that have begun before it."""
        self._mutated[id(effect)] = Logged(effect, self._tracer.root_position())
        self._tracer.trail.log(self._take_back_call, effect)

    def _take_back_call(self, effect: Effect) -> None:
        del self._mutated[id(effect)]

    def at_start(self, effect: Effect) -> None:
        """Add an effect that is replayed before the graph runs. The graph must not depend on it, and it may load only values from outside.

        In calls that run uncompiled if their graph raises, it isn't replayed, so the same change must be made after the graph as well.
        """
        self._first.append(Logged(effect, self._tracer.root_position()))
        self._tracer.trail.log(self._take_back_first)

    def _take_back_first(self) -> None:
        self._first.pop()

    def at_end(self, effect: Effect) -> None:
        """Add an effect that isn't the mutation of an object, such as a global mode or a generator. Such effects are replayed after all mutations, in order."""
        self._last.append(Logged(effect, self._tracer.root_position()))
        self._tracer.trail.log(self._take_back_last)

    def _take_back_last(self) -> None:
        self._last.pop()

    def has_changed_since(self, mark: int) -> bool:
        """Whether any outside value has been changed since a position of the trail, for the first time or again."""
        changes = (Effects._take_back, Effects._take_back_call, Effects._take_back_last)
        return any(getattr(undo, "__func__", None) in changes for undo, _ in self._tracer.trail.since(mark))

    def mutated_since(self, mark: int) -> Iterator[Object]:
        """The values from outside that have been announced as mutated since a position of the trail."""
        return (args[0] for undo, args in self._tracer.trail.since(mark) if getattr(undo, "__func__", None) is Effects._take_back)

    def mutated_before_and_since(self, mark: int) -> Iterator[Object]:
        """The values from outside that were mutated both before and after a position of the trail, although they are replayed only once."""
        later = [(args[0], args[1]) for undo, args in self._tracer.trail.since(mark) if getattr(undo, "__func__", None) is Effects._take_back]
        first = {id(obj) for obj, is_first in later if is_first}
        return (obj for obj, _ in later if id(obj) not in first)

    def is_mutated(self, obj: Object) -> bool:
        """Whether a value from outside was announced as mutated."""
        return id(settle(obj)) in self._mutated

    def before_graph(self) -> list[Logged]:
        """The effects that are replayed before the graph runs, in order."""
        return [*self._first]

    def order(self) -> list[Logged]:
        """The effects that are replayed after the graph, in order. Iterators from outside come first: none was advanced after a change of its container."""
        mutated = sorted(self._mutated.values(), key=lambda logged: not isinstance(logged.effect, Object) or not logged.effect.replays_first)
        return [*mutated, *self._last]

    def all(self) -> list[Effect]:
        """Every effect so far."""
        return [logged.effect for logged in (*self._first, *self._mutated.values(), *self._last)]

    def __len__(self) -> int:
        return len(self._mutated) + len(self._last)
