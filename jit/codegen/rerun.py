"""What becomes of a call whose graph has raised where the program has handlers: it runs uncompiled, so that they see the exception.

The graph has changed nothing by then, or nothing before a check that fails (graph/check_order.py), and effects come after it: only random number
generators are to be put back. An exception that is no Exception (Ctrl-C) must come out now; where blocks were entered before this part of the call began,
it is raised there.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any

from framejit import logs
from framejit._runtime import CompiledFunction, set_thread_disabled
from framejit.bytecode import abort
from framejit.bytecode.decode import CO_VARARGS, CO_VARKEYWORDS
from framejit.errors import CHECK_FAILED, FramejitError


def run_uncompiled(error: BaseException, function: FunctionType, *slots: Any) -> Any:
    """Call the function again with the argument slots of its frame, uncompiled, after `error` has come out of its graph."""
    ours = isinstance(error, FramejitError)
    try:
        target = function if isinstance(error, Exception) else abort.raising(function, error)
        if target is None or ours:
            raise error
        logs.info("graph_breaks", f"{function.__qualname__} runs uncompiled this time: its graph raised {type(error).__name__}: {error}")
    finally:
        del error  # whose traceback leads to this frame
    positional, keywords = arguments(function, slots)
    before = set_thread_disabled(True)
    try:
        return target(*positional, **keywords)
    finally:
        set_thread_disabled(before)


def run_where_check_failed(error: BaseException, function: FunctionType, *slots: Any) -> Any:
    """`run_uncompiled` where a check of the program's has failed in the graph. Whatever else the graph raises comes out as it is."""
    try:
        if not (type(error) is RuntimeError and CHECK_FAILED in error.args):
            raise error
        return run_uncompiled(error, function, *slots)
    finally:
        del error  # whose traceback leads to this frame


def with_eager_traceback(error: BaseException) -> BaseException:
    """The exception with the traceback that it would have without the compiled frame and what it has called here."""
    trace = error.__traceback__
    entry = None if trace is None else trace.tb_next  # after the compiled frame
    while entry is not None and entry.tb_frame.f_code.co_filename == __file__:
        entry = entry.tb_next
    return error.with_traceback(entry)


def arguments(function: FunctionType, slots: tuple[Any, ...]) -> tuple[list[Any], dict[str, Any]]:
    """The argument slots of a frame as the arguments of a call."""
    code = function.__code__
    end = code.co_argcount + code.co_kwonlyargcount
    positional = list(slots[: code.co_argcount])
    keywords = dict(zip(code.co_varnames[code.co_argcount : end], slots[code.co_argcount : end]))
    extra = list(slots[end:])
    if code.co_flags & CO_VARARGS:
        positional += extra.pop(0)
    if code.co_flags & CO_VARKEYWORDS:
        keywords |= extra.pop(0)
    return positional, keywords


# Where a call has been split, its first part may end in a result all the same. So what it returns is not the state that the step takes, but
# a callable: the step with its state, or what says that the result is there.

follow: Callable[..., Any] = operator.call
"""The step of such an entry."""


def as_result(choice: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, whose result is made what the first part of a split call returns: the resume function of that number gives it as it is."""

    def call(*args: Any) -> Any:
        return functools.partial(tuple, (choice, function(*args)))

    return call


def hand_back(result: Any) -> Any:
    """The resume function of a call that has ended."""
    return result


def ended() -> Any:
    """The function `hand_back` in the form in which entries hold resume functions, and never compiled."""
    assert isinstance(hand_back, FunctionType)
    return CompiledFunction(hand_back, lambda function, args: None)
