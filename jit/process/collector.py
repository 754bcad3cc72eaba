"""Python's garbage collector, which is off while framejit compiles or is imported: nearly all objects that this makes live on, so collections find nothing."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

_lock = threading.Lock()
_holders = 0
"""The number of blocks, on all threads, that want the collector to be off."""
_program_has_it_on = False
"""True if the collector was on before the first of these blocks began."""
_program_freezes = False
"""True if the program has been seen to freeze objects, which exempts them from garbage collection."""


@contextlib.contextmanager
def off() -> Iterator[None]:
    """Switch the collector off for the `with` block. What is there at its end ages: otherwise what the block has made would make a collection due, which is
    one of all generations if the program itself has imported much."""
    global _holders, _program_has_it_on
    with _lock:
        if not _holders:
            _program_has_it_on = gc.isenabled()
        _holders += 1
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if not _holders and _program_has_it_on:
                age_what_is_there()
                gc.enable()


@contextlib.contextmanager
def as_the_program_has_it() -> Iterator[None]:
    """Inside a block of `off`, let the collector run during the `with` block, if the program has it on."""
    if not _program_has_it_on:
        yield
        return
    age_what_is_there()
    gc.enable()
    try:
        yield
    finally:
        gc.disable()


def age_what_is_there() -> None:
    """Move all objects to the garbage collector's oldest generation without a collection. Those of a trace are soon freed by reference counts.

    This isn't done if the program itself has frozen objects, since these would be unfrozen too. Once it has, that isn't checked again: counting frozen
    objects takes milliseconds.
    """
    global _program_freezes
    _program_freezes = _program_freezes or gc.get_freeze_count() > 0
    if not _program_freezes:
        gc.freeze()
        gc.unfreeze()
