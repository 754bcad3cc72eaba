"""The lock under which one thread of the process at a time compiles, and how others wait for it.

torch's tracers patch `nn.Module`, and AOTAutograd switches anomaly detection, for the whole process: no other trace may see that, nor undo it half-way.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

ONE_AT_A_TIME = threading.RLock()
"""Held while a frame is compiled, by its backend too. Of torch's lock, which Inductor takes while it compiles a backward pass, it is the outer one."""
BETWEEN_LOOKS = 0.005
"""Seconds after which a thread that waits for a compilation asks again whether it has to."""


def wait(until: Callable[[], bool]) -> bool:
    """Let a compilation on another thread end first, which may have made an entry that serves, or wait until a condition holds. Whether there was one."""
    if ONE_AT_A_TIME.acquire(blocking=False):
        ONE_AT_A_TIME.release()
        return False
    while not ONE_AT_A_TIME.acquire(timeout=BETWEEN_LOOKS):
        if until():
            return True
    ONE_AT_A_TIME.release()
    return True


def free_in_child(lock: Any) -> None:
    """In a forked process, free an RLock that another thread held, since only the thread that has forked is there."""
    if not lock._is_owned():
        lock._at_fork_reinit()  # as the standard library does for its own locks


os.register_at_fork(after_in_child=lambda: free_in_child(ONE_AT_A_TIME))
