"""The undo trail: every mutation of tracing state is recorded, with what it was about and how to take it back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from framejit.quick_dataclass import dataclass


@dataclass(slots=True, eq=False)
class Mutation:
    """A mutation. `owner` is what it was about: an Object, an interpreter frame, a node, an effect, or a part of the trace. `undo(*args)` takes it back."""

    owner: Any
    undo: Callable[..., Any]
    args: tuple[Any, ...]


class Learned(Mutation):
    """The trace knows more about the owner than before; for the program, the owner is the same."""

    __slots__ = ()


class Changed(Mutation):
    """The owner isn't what it was before, as the program sees it."""

    __slots__ = ()


class NodeAdded(Mutation):
    """An operation, the owner, was added to a graph."""

    __slots__ = ()


class EffectAnnounced(Mutation):
    """The owner, an effect, is to be replayed after the graph."""

    __slots__ = ()


class EffectGrown(EffectAnnounced):
    """The owner, an effect that was announced before, has changed once more."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class FieldSet:
    """A field of the owner was given another value, which is a change of the owner for as long as the field differs from `before`."""

    owner: Any
    field: str
    before: Any

    def is_restored(self) -> bool:
        """Return whether the field has its old value again."""
        return getattr(self.owner, self.field) is self.before


class FieldFilled(FieldSet):
    """A field of the owner was computed because something asked for it; for the program, the owner is the same."""

    __slots__ = ()


TrailRecord = Mutation | FieldSet


class Trail:
    """A stack of records. `mark` is a position; `undo_to(mark)` takes everything since back, newest first.

    What is stacked are tuples, a record's class and its fields: records are made where somebody asks for them, which is rare.
    """

    __slots__ = ("_stack", "undoing")

    def __init__(self) -> None:
        self._stack: list[tuple[type[TrailRecord], Any, Any, Any]] = []
        self.undoing = False
        """True while mutations are taken back."""

    def set(self, owner: object, field: str, value: Any) -> None:
        """`setattr(owner, field, value)`, undoable: the owner has changed."""
        self._stack.append((FieldSet, owner, field, getattr(owner, field)))
        setattr(owner, field, value)

    def fill(self, owner: object, field: str, value: Any) -> None:
        """`setattr(owner, field, value)`, undoable: the field says what was so before."""
        self._stack.append((FieldFilled, owner, field, getattr(owner, field)))
        setattr(owner, field, value)

    def changed(self, owner: object, undo: Callable[..., Any], *args: Any) -> None:
        """Record that the owner has changed, or is about to, and what takes that back."""
        self._stack.append((Changed, owner, undo, args))

    def learned(self, owner: object, undo: Callable[..., Any], *args: Any) -> None:
        """Record that the trace has learned something about the owner, and what forgets it."""
        self._stack.append((Learned, owner, undo, args))

    def learned_each(self, owners: Iterable[object], undo: Callable[[], Any]) -> None:
        """Record that the trace has learned something about each of the owners, in order. `undo` forgets it about the last one that it knows about."""
        self._stack.extend([(Learned, owner, undo, ()) for owner in owners])

    def note(self, kind: type[Mutation], owner: object, undo: Callable[..., Any], *args: Any) -> None:
        """Record a mutation of another kind."""
        self._stack.append((kind, owner, undo, args))

    def mark(self) -> int:
        """The current position."""
        return len(self._stack)

    def since(self, mark: int, end: int | None = None) -> list[TrailRecord]:
        """The records of every mutation since `mark`, oldest first; up to the position `end`, if it is given."""
        return [kind(owner, *rest) for kind, owner, *rest in self._stack[mark:end]]

    def undo_to(self, mark: int) -> None:
        """Take back every mutation since `mark`."""
        stack, self.undoing = self._stack, True
        try:
            while len(stack) > mark:
                kind, owner, what, how = stack.pop()
                if kind is FieldSet or kind is FieldFilled:
                    setattr(owner, what, how)
                else:
                    what(*how)
        finally:
            self.undoing = False

    def forget(self) -> None:
        """Keep all mutations: nothing can be taken back any more."""
        self._stack.clear()
