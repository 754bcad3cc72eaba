"""Counts what framejit does in this process, for `framejit.statistics()`, and passes notes of compilations to recordings, for `framejit.explain()`."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from framejit.breaks import Break
from framejit.errors import UserFrame
from framejit.said.directives import untraced

COUNTERS = ("graphs", "graph_breaks", "recompiles", "frames", "fallbacks", "guards", "internal_errors")
"""The names of the counters. frames: compiled frames (entries made); graphs: compiled frames that call a graph; fallbacks: frames that run uncompiled."""


class Statistics:
    """Counters, and the reasons of breaks and fallbacks, each of which is kept once, the latest last. Several threads may use it at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(COUNTERS, 0)
        self._reasons: dict[str, None] = {}
        self._uncompiled: dict[str, None] = {}

    def add(self, counter: str, n: int = 1) -> None:
        """Add to one of COUNTERS. Raises KeyError for any other name."""
        with self._lock:
            self._counts[counter] += n

    def reason(self, text: str) -> None:
        """Record why a graph broke or a frame runs uncompiled."""
        with self._lock:
            self._reasons.pop(text, None)
            self._reasons[text] = None

    def fallback(self, reason: str, text: str) -> None:
        """Count a frame that runs uncompiled. `text` says which frame it is, why and where, and what to do about it."""
        self.add("fallbacks")
        self.reason(reason)
        with self._lock:
            self._uncompiled.pop(text, None)
            self._uncompiled[text] = None

    def snapshot(self) -> dict[str, Any]:
        """Return a dict: graphs, graph_breaks, recompiles, frames, fallbacks (ints), reasons, uncompiled (lists of str), then the other counters."""
        with self._lock:
            counts = dict(self._counts)
            first = {name: counts.pop(name) for name in ("graphs", "graph_breaks", "recompiles", "frames", "fallbacks")}
            return {**first, "reasons": list(self._reasons), "uncompiled": list(self._uncompiled), **counts}

    def reset(self) -> None:
        """Set all counters to zero, and forget the reasons."""
        with self._lock:
            self._counts = dict.fromkeys(COUNTERS, 0)
            self._reasons.clear()
            self._uncompiled.clear()


STATISTICS = Statistics()
"""The counters of this process."""


@untraced
def statistics() -> dict[str, Any]:
    """Return what framejit has done in this process, since it began or since `reset()`, as a dict.

    `graphs`, `graph_breaks`, `recompiles`, `frames`, `fallbacks`, `guards` and `internal_errors` are counts. `reasons` lists why graphs broke and frames run
    uncompiled, each reason once. `uncompiled` has a line for each frame that runs uncompiled: which frame it is, why and where, and what to do about it.
    """
    return STATISTICS.snapshot()


def reset_statistics() -> None:
    """Set all counters of `statistics()` to zero and forget the reasons."""
    STATISTICS.reset()


STAGES = ("trace", "plan", "backend", "emit", "guards")
"""The stages of a compilation, in order."""


@dataclass
class BreakNote:
    """A graph break that split a call.

    `before` is the number of operations in the graph up to it, and `after` the number in each graph that continues after it. `number` is the number of the
    break in the log, or None if the log hasn't shown it.
    """

    reason: Break
    stack: tuple[UserFrame, ...]
    before: int = 0
    after: list[int] = field(default_factory=list)
    number: int | None = None


NEXT_STAGE = {"trace": "plan", "plan": "backend", "backend": "emit", "emit": "guards", "guards": "guards"}
"""The stage after each stage, unless the compilation must be traced again: that begins with the first."""


class Stopwatch:
    """Measures how many `seconds` each stage of one compilation takes. `stage`: the one in progress."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.stage = STAGES[0]
        self._lapped = time.perf_counter()

    def lap(self, stage: str) -> None:
        """Add the time since the last lap to a stage, which has ended."""
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._lapped
        self._lapped = now
        self.stage = NEXT_STAGE[stage]


@dataclass(frozen=True)
class FrameNote:
    """One compilation of one frame.

    `operations` is the number of operations in its graph, or None if it has no graph. `guards` are noted only inside `recording()`. `seconds` has the time of
    each stage. `fallback` is why the frame runs uncompiled, or None if it doesn't. `left_to_autograd` says in words why its graph has the backend eager
    although the program has asked for another one.
    """

    function: str
    filename: str
    lineno: int
    seconds: dict[str, float]
    operations: int | None = None
    guards: list[str] = field(default_factory=list)
    broke: BreakNote | None = None
    fallback: Break | None = None
    fallback_stack: tuple[UserFrame, ...] = ()
    left_to_autograd: str | None = None


@dataclass(eq=False)
class Recording:
    """The notes of a `with recording():` block: the compilations in its context, and the errors inside framejit in all threads."""

    frames: list[FrameNote] = field(default_factory=list)
    internal_errors: list[str] = field(default_factory=list)


_recording: ContextVar[Recording | None] = ContextVar("framejit_recording", default=None)
_recordings: list[Recording] = []
_recordings_lock = threading.Lock()


@contextlib.contextmanager
def recording() -> Iterator[Recording]:
    """Record compilations and errors inside the `with` block."""
    found = Recording()
    token = _recording.set(found)
    with _recordings_lock:
        _recordings.append(found)
    try:
        yield found
    finally:
        with _recordings_lock:
            _recordings.remove(found)
        _recording.reset(token)


def record(note: FrameNote) -> None:
    """Add the note of a compilation to the recording in force, if there is one."""
    found = _recording.get()
    if found is not None:
        found.frames.append(note)


def record_internal_error(text: str) -> None:
    """Add an error inside framejit to all recordings. It may come from a thread of autograd's, which has another context than the recording."""
    with _recordings_lock:
        for found in _recordings:
            found.internal_errors.append(text)


def is_recording() -> bool:
    """Return whether a recording is in force in this context."""
    return _recording.get() is not None


def counted(count: int, noun: str) -> str:
    """A number of things in words: "1 graph", "2 graphs"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


FEW = 8
"""At most so many numbers are listed one by one."""


def listed(numbers: Sequence[int]) -> str:
    """Numbers as a sentence lists them. Of many numbers, only the first ones are listed."""
    texts = [str(number) for number in numbers[:FEW]]
    if len(numbers) > FEW:
        return f"{', '.join(texts)}, ..."
    return " and ".join([*filter(None, [", ".join(texts[:-1])]), *texts[-1:]])


def graphs_of(operations: Sequence[int]) -> str:
    """Graphs in words, with their numbers of operations: "2 graphs of 3 and 1 operations"."""
    return f"{counted(len(operations), 'graph')} of {listed(operations)} {'operation' if list(operations) == [1] else 'operations'}"


def place(stack: Sequence[UserFrame]) -> str:
    """The innermost frame of a stack as file:line; empty if unknown."""
    return f"{stack[-1].filename}:{stack[-1].lineno}" if stack else ""
