"""The ordered log of changes that a trace makes to outside values: effects before the graph, mutated objects, and other effects, such as modes.

Each mutated object is replayed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from framejit.bytecode.instruction import NO_POSITION, Position
from framejit.objects.core.object import Codegen, Object, settle
from framejit.objects.core.vm import AnswersView
from framejit.quick_dataclass import dataclass
from framejit.trail import EffectAnnounced, EffectGrown, Trail


class Effect(Protocol):
    """A change that is made for real after the graph has run: an Object with a source that was mutated, or a change of global state."""

    def replay(self, cg: Codegen) -> None:
        """Emit the code that makes the change. It leaves the stack as it was."""

    def referents(self) -> list[Object]:
        """The Objects that `replay` loads, apart from the effect itself."""


class EffectsTrace(Protocol):
    """The part of the running trace that the log needs."""

    trail: Trail

    @property
    def answers(self) -> AnswersView[Object]:
        """The answers that the program gets when it asks whether it is compiled."""

    def root_position(self) -> Position:
        """The position in the traced frame's code. Inside an inlined call, it is that of the call."""


@dataclass(frozen=True, slots=True)
class Logged:
    """An effect, and the position in the traced frame at which it first took place."""

    effect: Effect
    position: Position = NO_POSITION


def nothing() -> None:
    """Takes back a change of an effect that stays announced."""


class Effects:
    """The effects of one trace, in order of their first occurrence. Undone with the trail."""

    __slots__ = ("_tracer", "_first", "_mutated", "_last", "number")

    def __init__(self, tracer: EffectsTrace) -> None:
        self._tracer = tracer
        self._first: list[Logged] = []
        self._mutated: dict[int, Logged] = {}
        self._last: list[Logged] = []
        self.number = 0
        """The number of changes so far, those of values that had changed before included. Undoing a change doesn't lower it."""

    def mutated(self, obj: Object) -> None:
        """Note that the state of a value from outside differs from that of the real object, which its `replay` will change. Calling this again does nothing.

        A value made by the trace needs no replay, since it is built in its last state.
        """
        obj = settle(obj)
        if obj.source is None:
            return
        if not obj.replays_first:
            self._tracer.answers.has_changed(obj)
        if id(obj) not in self._mutated:
            self._mutated[id(obj)] = Logged(obj, self._tracer.root_position())
            self._announce(obj, self._mutated.pop, id(obj))
        else:
            self.number += 1
            self._tracer.trail.note(EffectGrown, obj, nothing)

    def in_order(self, effect: Effect) -> None:
        """Add an effect that isn't the mutation of an object. It is replayed after the mutations that have begun before it."""
        self._mutated[id(effect)] = Logged(effect, self._tracer.root_position())
        self._announce(effect, self._mutated.pop, id(effect))

    def at_start(self, effect: Effect) -> None:
        """Add an effect that is replayed before the graph runs. The graph must not depend on it, and it may load only values from outside.

        In calls that run uncompiled if their graph raises, it isn't replayed, so the same change must be made after the graph as well.
        """
        self._first.append(Logged(effect, self._tracer.root_position()))
        self.number += 1
        self._tracer.trail.learned(effect, self._first.pop)

    def at_end(self, effect: Effect) -> None:
        """Add an effect that isn't the mutation of an object, such as a global mode or a generator. Such effects are replayed after all mutations, in order."""
        self._last.append(Logged(effect, self._tracer.root_position()))
        self._announce(effect, self._last.pop)

    def _announce(self, effect: Effect, undo: Callable[..., Any], *args: Any) -> None:
        self.number += 1
        self._tracer.trail.note(EffectAnnounced, effect, undo, *args)

    def has_changed_since(self, mark: int) -> bool:
        """Return whether any outside value has been changed since a position of the trail, for the first time or again."""
        return any(isinstance(record, EffectAnnounced) for record in self._tracer.trail.since(mark))

    def mutated_since(self, mark: int) -> Iterator[Object]:
        """The values from outside that have been announced as mutated since a position of the trail."""
        return (record.owner for record in self._tracer.trail.since(mark) if isinstance(record, EffectAnnounced) and isinstance(record.owner, Object))

    def mutated_before_and_since(self, mark: int) -> Iterator[Object]:
        """The values from outside that were mutated both before and after a position of the trail, although they are replayed only once."""
        later = [record for record in self._tracer.trail.since(mark) if isinstance(record, EffectAnnounced) and isinstance(record.owner, Object)]
        first = {id(record.owner) for record in later if not isinstance(record, EffectGrown)}
        return (record.owner for record in later if id(record.owner) not in first)

    def is_mutated(self, obj: Object) -> bool:
        """Return whether a value from outside was announced as mutated."""
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
