"""The surroundings of a compile: it gets room on the stack, the garbage collector is off, and the program doesn't notice it."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator

from framejit.compiler.aside import aloud, hooks_and_profilers, silent
from framejit.process import interrupts
from framejit.process.warning_filters import version_kept

FRAMES_FOR_TRACING = 5000
"""The number of frames that a compile may use beyond the recursion limit in force. They must fit on a thread's C stack, usually eight megabytes."""

_program_freezes = False
"""Whether the program has been seen to freeze objects, which exempts them from garbage collection."""


@contextlib.contextmanager
def undisturbed() -> Iterator[bool]:
    """A `with` block for a compile, in which hooks, profilers and the like of the program aren't in force. It gives whether the program has the garbage
    collector on."""
    with interrupts.waiting(), hooks_and_profilers(), silent(), collector(False) as collects:
        yield collects


@contextlib.contextmanager
def as_the_program_has_it(collects: bool) -> Iterator[None]:
    """A `with` block, inside a compile, for code that isn't framejit's and may take long: a backend. The garbage collector is as the program has it."""
    with collector(collects), interrupts.at_once(), aloud(), version_kept():
        yield


@contextlib.contextmanager
def collector(enabled: bool) -> Iterator[bool]:
    """Switch Python's garbage collector on or off for the `with` block, which gives whether it was on before.

    A trace makes hundreds of thousands of objects, and nearly all of them live until its end. Collections in between would take a third of its time and
    find nothing.
    """
    before = gc.isenabled()
    if enabled:
        age_what_is_there()
    (gc.enable if enabled else gc.disable)()
    try:
        yield before
    finally:
        (gc.enable if before else gc.disable)()


def age_what_is_there() -> None:
    """Move the objects that the trace has made to the garbage collector's oldest generation without a collection. Most are soon freed by reference counts.

    This isn't done if the program itself has frozen objects, since these would be unfrozen too. Once it has, that isn't checked again: counting frozen
    objects takes milliseconds.
    """
    global _program_freezes
    _program_freezes = _program_freezes or gc.get_freeze_count() > 0
    if not _program_freezes:
        gc.freeze()
        gc.unfreeze()


@contextlib.contextmanager
def deeper_recursion() -> Iterator[None]:
    """Raise the recursion limit for the compiler, which needs about thirty frames where the program needs three."""
    limit = sys.getrecursionlimit()
    raised = limit + FRAMES_FOR_TRACING
    sys.setrecursionlimit(raised)
    try:
        yield
    finally:
        if sys.getrecursionlimit() == raised:
            sys.setrecursionlimit(limit)
