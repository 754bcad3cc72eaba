"""The source of a lock that the guard walk takes, and what releases it if the entry's code raises."""

from __future__ import annotations

import _thread
from collections.abc import Callable
from typing import Any

from framejit._runtime import release_lock
from framejit.guards.source import MISSING, Source

LOCKS: tuple[Any, ...] = (_thread.LockType, _thread.RLock)


def is_free(lock: Any) -> bool:
    """Return whether this thread could take a lock without waiting. The lock is taken and released."""
    if not lock.acquire(False):
        return False
    lock.release()
    return True


class HeldLock(Source):
    """A lock as the guard walk takes it, without waiting: MISSING if another thread has it. What is captured releases it, at the latest when it is gone.

    A walk lets no other thread run, so its guards hold at the moment at which it takes the lock. This reference leaves the lock free.
    """

    __slots__ = ()
    accessor = "held_lock"

    def step(self, value: Any) -> Any:
        return value if type(value) in LOCKS and is_free(value) else MISSING

    def text(self, of: Callable[[Source], str]) -> str:
        assert self.base is not None
        return f"{of(self.base)}, held by this thread"


def released(error: BaseException, *held: Any) -> BaseException:
    """The exception with which compiled code ends, after the locks that its guard walk has taken were released."""
    for each in held:
        release_lock(each)
    return error
