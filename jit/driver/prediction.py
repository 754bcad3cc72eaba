"""Checks how calls end that run uncompiled: if a trace saw the program raise an exception, the call must raise it."""

from __future__ import annotations

import signal
from types import TracebackType
from typing import Any, Protocol

from framejit import breaks
from framejit.errors import FramejitError, UserFrame
from framejit.program import classes
from framejit.quick_dataclass import dataclass
from framejit.report import place


class OutcomeCheck(Protocol):
    """A callable that checks how a frame has ended which ran uncompiled, or an exception that has left compiled code. `error` is None if the frame has
    returned. It may raise another exception instead.
    """

    def __call__(self, compiled: Any, error: BaseException | None, entry: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class AfterFirstStep:
    """The check for a frame with an optimizer's first step, which runs uncompiled because its graph would run only once."""

    def __call__(self, compiled: Any, error: BaseException | None, entry: Any) -> None:
        """Note that such a frame has ended. If that happens twice, it pays to compile first steps."""
        compiled.compile_callback.first_step_ran(compiled, entry)


FROM_ANYWHERE = (MemoryError, RecursionError, FramejitError)
"""Exceptions that any instruction may raise, whatever the trace has seen. framejit's own exceptions come from functions that are compiled meanwhile."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The exception that a call is expected to raise. The runtime calls this object when the frame has ended.

    Attributes:
        reason: why the frame runs uncompiled.
        stack: the user's frames where the trace saw the exception, outermost first.
        cls: the exact class of the exception; None for an operator's error, since only the real operator knows the class.
        certain: False if a handler of the program may keep the exception from leaving the frame.
        computes: whether operators run before the exception; with other data, about which there is no guard, each of them may raise.
        whole: whether the program demands that the call is compiled in one piece, so that a frame which returns must not have run uncompiled.
    """

    reason: breaks.Break
    stack: tuple[UserFrame, ...]
    cls: type[BaseException] | None
    certain: bool = True
    computes: bool = False
    whole: bool = False

    def __call__(self, compiled: Any, error: BaseException | None, entry: Any) -> None:
        """Check how the frame of a call of `compiled` has ended: it has returned (`error` is None) or raised. This may raise another exception instead."""
        if error is None or not self.allows(error):
            compiled.compile_callback.refuted(self, compiled, error, entry)

    def allows(self, error: BaseException) -> bool:
        """Return whether the way in which the frame has ended is consistent with the prediction."""
        if self.cls is None or type(error) is self.cls or not self.certain:
            return True
        if self.computes and self.stack and innermost(error) != (self.stack[-1].filename, self.stack[-1].lineno):
            return True
        return not isinstance(error, Exception) or isinstance(error, FROM_ANYWHERE) or comes_from_signal(error.__traceback__)

    @property
    def key(self) -> tuple[Any, ...]:
        """A key that identifies a prediction among those of one function."""
        return self.reason.id, self.stack[-1].range if self.stack else None

    def against(self, error: BaseException | None) -> str:
        """The text of an error message: the exception that was expected, and what happened."""
        expected = str(self.reason) if self.cls is None else f"it would raise {classes.qualname(self.cls)}"
        where = f" at {place(self.stack)}" if self.stack else ""
        came = "it returned" if error is None else f"it raised {type(error).__qualname__}: {error}"
        return f"the trace said that {expected}{where}; {came}"


def innermost(error: BaseException) -> tuple[str, int] | None:
    """The file and line at which an exception was raised."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return None if traceback is None else (traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)


def comes_from_signal(traceback: TracebackType | None) -> bool:
    """Return whether an exception was raised in one of the program's signal handlers."""
    handlers = (signal.getsignal(number) for number in signal.valid_signals())
    codes = [getattr(getattr(handler, "__func__", handler), "__code__", None) for handler in handlers if callable(handler)]
    while traceback is not None:
        if traceback.tb_frame.f_code in codes:
            return True
        traceback = traceback.tb_next
    return False
