"""Signals that end a trace before its frame does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from framejit import breaks
from framejit.ceval.frame import Frame
from framejit.errors import UserFrame
from framejit.program import classes
from framejit.said.directives import Directives

Place = CodeType | tuple[CodeType, int] | tuple[Any, ...]


class GraphBreak(Exception):
    """Signal: tracing stops here. `stack`: the user's frames; `frames`: the interpreter's. Both are outermost first."""

    def __init__(self, reason: breaks.Break, stack: list[UserFrame], frames: Sequence[Frame] = ()) -> None:
        super().__init__(str(reason))
        self.frames = frames
        self.reason = reason
        self.stack = stack


class Escape(GraphBreak):
    """Signal: an exception of the program leaves the traced frame. `cls`: its class; `directives`: those in force where it was raised."""

    def __init__(self, cls: type[BaseException], stack: list[UserFrame], directives: Directives) -> None:
        super().__init__(breaks.ExceptionEscapes(classes.qualname(cls)), stack)
        self.cls = cls
        self.directives = directives


class Restart(Exception):
    """Signal: the trace has made something that it should have left to native code: an iterator that ends or continues elsewhere, or a tensor whose own
    gradient is needed. The trace is restarted from the beginning of its frame, and breaks where that is made.

    `place`: a generator function's code, an instruction (its code and index), or a range of the program's text (see UserFrame.range).
    """

    def __init__(self, place: Place, reason: breaks.Break) -> None:
        super().__init__(str(reason))
        self.place = place
        self.reason = reason


class RestartForGood(Restart):
    """Signal: the trace is restarted, and breaks at a range of the program's text. Later traces of the compiled function and of its resume functions break
    there too, since they would find the same."""


class Ahead(Exception):
    """Signal: `run` must be called for real, ahead of the trace, which is then restarted. If the call raises, the trace breaks at `place`."""

    def __init__(self, run: Callable[[], object], place: Place, reason: breaks.Break) -> None:
        self.run = run
        self.place = place
        self.reason = reason
