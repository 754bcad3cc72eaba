"""Signal handlers of the program wait while a frame is traced, and run between two operations of it, or where the trace ends.

What they raise (Ctrl-C, a time limit) would otherwise come out anywhere: in the middle of the tracer's changes to torch's modes, where an
`except Exception` takes it for an error of an operator, or inside an operator on fake tensors: torch's C++ asks these for their sizes
in places that allow no exception, and ends the process.
"""

from __future__ import annotations

import contextlib
import importlib
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator
from types import FrameType
from typing import Any

IN_C: Any = importlib.import_module("_signal")
"""The module in C on which the module signal is built. signal's functions look for an enum member for each handler, which takes longer than all else here."""
NUMBERS = tuple(map(int, signal.valid_signals()))


class Interrupted(BaseException):
    """Carries what a signal handler raised past those who handle each Exception. `error`: the exception itself."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class Waiting:
    """The handler, for the time being, of all signals that the program handles in Python."""

    def __init__(self) -> None:
        self.handlers: dict[int, Any] = {}
        self.pending: deque[int] = deque()
        self.waits = True
        self.over = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.over:  # taking it down was interrupted
            signal.signal(number, self.handlers[number])
            self.handlers[number](number, frame)
        elif self.waits:
            self.pending.append(number)
        else:
            self.handle(number, frame)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Run the program's handler. What it raises comes out, an Exception as Interrupted."""
        try:
            self.handlers[number](number, frame)
        except Exception as error:
            raise Interrupted(error) from None

    def deliver(self) -> None:
        """Run the handlers of the signals that have come."""
        while self.pending:
            self.handle(self.pending.popleft(), sys._getframe(2))

    def set_up(self) -> None:
        for number in NUMBERS:
            handler = IN_C.getsignal(number)
            if callable(handler):
                self.handlers[number] = handler
                IN_C.signal(number, self)

    def take_down(self) -> None:
        self.over = True
        for number, handler in self.handlers.items():
            if IN_C.getsignal(number) is self:
                IN_C.signal(number, handler)


_waiting: Waiting | None = None
"""The Waiting in force on the main thread, on which alone Python runs handlers."""


def here() -> Waiting | None:
    """The innermost that waits, if this is the thread on which handlers run."""
    return _waiting if threading.current_thread() is threading.main_thread() else None


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """Signal handlers wait inside the `with` block, for `heed` or for its end. Raises what they raise, an Exception as Interrupted."""
    global _waiting
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    outer, mine = _waiting, Waiting()
    try:
        _waiting = mine
        mine.set_up()
        yield
    finally:
        _waiting = outer
        mine.take_down()
        mine.deliver()


def heed() -> None:
    """Run the handlers that wait: nothing is half-done here."""
    if _waiting is not None and _waiting.pending and here() is not None:
        _waiting.deliver()


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Signal handlers run when their signals come, inside the `with` block: what runs there may take long."""
    mine = here()
    if mine is None:
        yield
        return
    mine.waits = False
    try:
        mine.deliver()
        yield
    finally:
        mine.waits = True
