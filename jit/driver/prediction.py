"""What looks at how calls end that run uncompiled: where a trace saw the program raise, the call is to end so."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from framejit import breaks, classes
from framejit.errors import FramejitError, UserFrame
from framejit.report import place


class OutcomeCheck(Protocol):
    """What looks at how a frame has ended that ran uncompiled, or at an exception that has left compiled code. `error` is None where it has returned.
    Raises what is to be raised in place of that."""

    def __call__(self, compiled: Any, error: BaseException | None, entry: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class AfterFirstStep:
    """For a frame with an optimizer's first step, of which no graph was made because that would run once."""

    def __call__(self, compiled: Any, error: BaseException | None, entry: Any) -> None:
        """The frame has ended. When it has done so twice, a graph pays."""
        compiled.compile_callback.first_step_ran(compiled, entry)


FROM_ANYWHERE = (MemoryError, RecursionError, FramejitError)
"""Exceptions that any instruction may raise, whatever a trace has seen: framejit's own come out of functions that are compiled meanwhile."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The exception that a call is to end in. The runtime calls this when the frame has ended.

    Attributes:
        reason: why the frame runs uncompiled.
        stack: the user's frames where it was seen to raise, outermost first.
        cls: the exact class of the exception; None where it is an operator's error, of which only the real operator knows the class.
        certain: False where a handler of the program may keep the exception from leaving the frame.
        computes: whether operators come before: on other data, which no guard is about, each of them may raise.
        whole: whether a frame that returns would have had to be compiled in one piece, so that it must not be run uncompiled.
    """

    reason: breaks.Break
    stack: tuple[UserFrame, ...]
    cls: type[BaseException] | None
    certain: bool = True
    computes: bool = False
    whole: bool = False

    def __call__(self, compiled: Any, error: BaseException | None, entry: Any) -> None:
        """The frame of a call of `compiled` has returned (`error` is None) or raised. Raises what is to be raised in place of that."""
        if error is None or not self.allows(error):
            compiled.compile_callback.refuted(self, compiled, error, entry)

    def allows(self, error: BaseException) -> bool:
        """Whether a trace that expected this exception can have been right."""
        if self.cls is None or type(error) is self.cls or not self.certain:
            return True
        if self.computes and self.stack and innermost(error) != (self.stack[-1].filename, self.stack[-1].lineno):
            return True
        return not isinstance(error, Exception) or isinstance(error, FROM_ANYWHERE) or comes_from_signal(error.__traceback__)

    @property
    def key(self) -> tuple[Any, ...]:
        """The key by which the predictions of one function are told apart."""
        return self.reason.id, self.stack[-1].range if self.stack else None

    def against(self, error: BaseException | None) -> str:
        """What was expected, and what has come, for the message."""
        expected = str(self.reason) if self.cls is None else f"it would raise {classes.qualname(self.cls)}"
        where = f" at {place(self.stack)}" if self.stack else ""
        came = "it returned" if error is None else f"it raised {type(error).__qualname__}: {error}"
        return f"the trace said that {expected}{where}; {came}"


def innermost(error: BaseException) -> tuple[str, int] | None:
    """The file and line that an exception was raised at."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return None if traceback is None else (traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)


def comes_from_signal(traceback: TracebackType | None) -> bool:
    """Whether an exception was raised in a handler of the program for signals."""
    handlers = (signal.getsignal(number) for number in signal.valid_signals())
    codes = [getattr(getattr(handler, "__func__", handler), "__code__", None) for handler in handlers if callable(handler)]
    while traceback is not None:
        if traceback.tb_frame.f_code in codes:
            return True
        traceback = traceback.tb_next
    return False
