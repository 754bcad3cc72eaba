"""What is arranged around a compile: it runs with room on the stack, and invisible to the program."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator

from framejit import interrupts
from framejit.compiler.aside import aloud, hooks_and_profilers, silent
from framejit.warning_filters import version_kept

FRAMES_FOR_TRACING = 5000
"""Beyond the recursion limit in force; they must fit on the C stack of a thread, eight megabytes as a rule."""

_program_freezes = False
"""Whether the program has been seen to keep objects from the garbage collector."""


@contextlib.contextmanager
def undisturbed() -> Iterator[bool]:
    """Nothing of the program's is met inside the `with` block; gives whether the program has the garbage collector on."""
    with interrupts.waiting(), hooks_and_profilers(), silent(), collector(False) as collects:
        yield collects


@contextlib.contextmanager
def as_the_program_has_it(collects: bool) -> Iterator[None]:
    """Run code inside the `with` block that is none of ours, and may take long: a backend."""
    with collector(collects), interrupts.at_once(), aloud(), version_kept():
        yield


@contextlib.contextmanager
def collector(enabled: bool) -> Iterator[bool]:
    """Python's garbage collector on or off inside the `with` block; gives whether it was on before.

    A trace makes hundreds of thousands of objects that nearly all stay till its end: collections in between would take a third of its
    time and find nothing.
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
    """Have what the trace has made so far become old without being looked at; most of it goes by its reference counts very soon.

    Not where the program itself has frozen objects, which would be unfrozen with them. Once it has, it isn't asked again: counting them takes milliseconds.
    """
    global _program_freezes
    _program_freezes = _program_freezes or gc.get_freeze_count() > 0
    if not _program_freezes:
        gc.freeze()
        gc.unfreeze()


@contextlib.contextmanager
def deeper_recursion() -> Iterator[None]:
    """Room on the stack for the compiler, which takes some thirty frames where the program takes three."""
    limit = sys.getrecursionlimit()
    raised = limit + FRAMES_FOR_TRACING
    sys.setrecursionlimit(raised)
    try:
        yield
    finally:
        if sys.getrecursionlimit() == raised:
            sys.setrecursionlimit(limit)
