"""The surroundings of a compile: the garbage collector is off, and the program doesn't notice it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from framejit.compiler.aside import aloud, hooks_and_profilers, silent
from framejit.process import collector, interrupts, underway
from framejit.process.warning_filters import version_kept


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """A `with` block for a compile, in which hooks, profilers and the like of the program aren't in force. The garbage collector is off, unless the program
    goes on meanwhile, which needs it."""
    with interrupts.waiting(), hooks_and_profilers(), silent(), contextlib.nullcontext() if underway.is_beside() else collector.off():
        yield


@contextlib.contextmanager
def as_the_program_has_it() -> Iterator[None]:
    """A `with` block, inside a compile, for code that isn't framejit's and may take long: a backend. The garbage collector is as the program has it."""
    with contextlib.nullcontext() if underway.is_beside() else collector.as_the_program_has_it(), interrupts.at_once(), aloud(), version_kept():
        yield
