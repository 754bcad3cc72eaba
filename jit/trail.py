"""The undo trail: every mutation of tracing state leaves here how to take it back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Trail:
    """A stack of undo actions. `mark` is a position; `undo_to(mark)` takes everything since back, newest first."""

    __slots__ = ("_log",)

    def __init__(self) -> None:
        self._log: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def log(self, undo: Callable[..., Any], *args: Any) -> None:
        """Record how to take back a mutation that is about to be, or has just been, made."""
        self._log.append((undo, args))

    def set(self, obj: object, name: str, value: Any) -> None:
        """`setattr(obj, name, value)`, undoable."""
        self._log.append((setattr, (obj, name, getattr(obj, name))))
        setattr(obj, name, value)

    def mark(self) -> int:
        """The current position."""
        return len(self._log)

    def since(self, mark: int) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
        """What would take back every mutation since `mark`, oldest first."""
        return self._log[mark:]

    def undo_to(self, mark: int) -> None:
        """Take back every mutation since `mark`."""
        while len(self._log) > mark:
            undo, args = self._log.pop()
            undo(*args)

    def forget(self) -> None:
        """Keep all mutations: nothing can be taken back any more."""
        self._log.clear()
