"""What framejit has done in this process: counters behind `framejit.statistics()`."""

from __future__ import annotations

import threading
from typing import Any

COUNTERS = ("graphs", "graph_breaks", "recompiles", "frames", "fallbacks", "guards", "internal_errors")
"""frames: compiled frames (entries made); graphs: those of them that call a graph; fallbacks: frames that run as written."""


class Statistics:
    """Counters and the reasons of breaks and fallbacks, in order. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(COUNTERS, 0)
        self._reasons: list[str] = []

    def add(self, counter: str, n: int = 1) -> None:
        """Add to one of COUNTERS. Raises KeyError for any other name."""
        with self._lock:
            self._counts[counter] += n

    def reason(self, text: str) -> None:
        """Record why a graph broke or a frame runs as written."""
        with self._lock:
            self._reasons.append(text)

    def snapshot(self) -> dict[str, Any]:
        """A plain dict: graphs, graph_breaks, recompiles, frames, fallbacks (ints), reasons (list of str), then the other counters."""
        with self._lock:
            counts = dict(self._counts)
            first = {name: counts.pop(name) for name in ("graphs", "graph_breaks", "recompiles", "frames", "fallbacks")}
            return {**first, "reasons": list(self._reasons), **counts}

    def reset(self) -> None:
        """Everything back to zero."""
        with self._lock:
            self._counts = dict.fromkeys(COUNTERS, 0)
            self._reasons.clear()


STATISTICS = Statistics()
"""The counters of this process."""


def statistics() -> dict[str, Any]:
    """What framejit has done in this process so far, or since `reset_statistics()`.

    The keys `graphs`, `graph_breaks`, `recompiles`, `frames` and `fallbacks` count; `reasons` lists, as text, why graphs
    broke and frames run as written; `guards` and `internal_errors` count too.
    """
    return STATISTICS.snapshot()


def reset_statistics() -> None:
    """Set all counters of `statistics()` to zero and forget the reasons."""
    STATISTICS.reset()
