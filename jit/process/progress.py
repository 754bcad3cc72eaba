"""One line of progress on a terminal, for what takes long.

    framejit: BertModel.forward: tracing encoder.layer.7 [00:02]

The line is a progress bar of tqdm's without a bar, so it stands below the program's own bars, and is gone at the end. A thread writes it, which `threading`
doesn't count: the program sees no further thread, and most compilations end before it has anything to do.
"""

from __future__ import annotations

import _thread
import contextlib
import importlib
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

AFTER = 1.0
"""Seconds after which the line appears."""
BETWEEN = 0.25
"""Seconds between two looks."""
FORMAT = "framejit: {desc} [{elapsed}]"


def is_wanted() -> bool:
    """Return whether stderr is a terminal."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is no stderr, or it is closed
        return False


@contextlib.contextmanager
def shown(text: Callable[[], str]) -> Iterator[None]:
    """Inside the block, show on a terminal what `text` returns."""
    if not is_wanted():
        yield
        return
    ended, gone = _thread.allocate_lock(), _thread.allocate_lock()
    ended.acquire()
    gone.acquire()
    try:
        _thread.start_new_thread(write, (text, ended, gone))
    except RuntimeError:  # the process may have no more threads
        gone.release()
    try:
        yield
    finally:
        ended.release()
        gone.acquire()


def line_of_progress(text: str) -> Any:
    """A new line of progress. It takes no lock of other processes, and has no thread that looks after it."""
    bar: Any = importlib.import_module("tqdm").tqdm  # most compilations need no line, and don't wait for the import

    class Line(bar):  # type: ignore[misc]
        monitor_interval = 0

    Line.set_lock(threading.RLock())
    columns, lines = shutil.get_terminal_size()  # a terminal without a size is taken to have the usual one
    return Line(desc=text, bar_format=FORMAT, leave=False, file=sys.stderr, ncols=columns, nrows=lines)


def write(text: Callable[[], str], ended: _thread.LockType, gone: _thread.LockType) -> None:
    """Write the line until `ended` is released, and then release `gone`."""
    try:
        if ended.acquire(timeout=AFTER):
            return
        with line_of_progress(text()) as line:
            line.start_t -= AFTER
            while not ended.acquire(timeout=BETWEEN):
                line.set_description_str(text())
    except Exception:  # what is shown is no reason for anything to fail
        pass
    finally:
        gone.release()
