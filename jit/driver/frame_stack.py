"""Makes room for a compilation on the stack where the interpreter keeps the frames of Python functions.

CPython keeps these frames in chunks of 16 KB (Python/pystate.c: `_PyThreadState_PushFrame`). A call whose frame doesn't fit maps a new chunk, and
its return unmaps it. Where the end of a chunk falls among the functions that a trace calls most, that happens thousands of times, and costs up to
a fifth of the trace. From Python 3.14 on, CPython keeps one such chunk to use it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

A = TypeVar("A")
R = TypeVar("R")

SLOTS = 32_000
"""The number of values that the frame of `with_room` has room for. The frame takes 256 KB, so that CPython maps a chunk of 512 KB, and half of it is left
for the frames that follow. Memory that no frame writes to costs nothing."""


def with_room(function: Callable[[A], R], argument: A) -> R:
    """Call `function(argument)` with one chunk for its frame and the frames of all functions that it calls."""
    return function(argument)


with_room.__code__ = with_room.__code__.replace(co_stacksize=SLOTS)
