"""The recursion limit: a compile raises it for itself, and a program that asks for it while it is traced gets the one that it has set."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

FRAMES_FOR_TRACING = 5000
"""The number of frames that a compile may use beyond the recursion limit in force. They must fit on a thread's C stack, usually eight megabytes."""
_raised: list[tuple[int, int]] = []
"""For each compile that runs: the limit that it has set, and the one before."""


@contextlib.contextmanager
def deeper_recursion() -> Iterator[None]:
    """Raise the recursion limit for the compiler, which needs about thirty frames where the program needs three."""
    limit = sys.getrecursionlimit()
    raised = limit + FRAMES_FOR_TRACING
    sys.setrecursionlimit(raised)
    _raised.append((raised, limit))
    try:
        yield
    finally:
        _raised.pop()
        if sys.getrecursionlimit() == raised:
            sys.setrecursionlimit(limit)


def limit_of_program() -> int:
    """The recursion limit that is in force outside of compiles."""
    limit = sys.getrecursionlimit()
    for raised, before in reversed(_raised):
        if limit != raised:  # the program has set another one meanwhile
            break
        limit = before
    return limit
