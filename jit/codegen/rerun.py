"""Runs a call uncompiled after its graph has raised inside the program's exception handlers, so that the handlers see the exception.

By then, the graph has changed nothing, or nothing before a check that fails (graph/check_order.py), or inputs that have their old data back
(graph/put_back.py), and effects come after it. Random number generators are restored as well. An exception that isn't an Exception (Ctrl-C) must leave
the call now. If blocks were entered before this part of the call began, it is raised there.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any

from framejit import logs
from framejit._runtime import set_thread_disabled
from framejit.bytecode import abort
from framejit.bytecode.decode import CO_VARARGS, CO_VARKEYWORDS
from framejit.errors import CHECK_FAILED, FramejitError
from framejit.process import exceptional


def run_uncompiled(errors: list[BaseException], function: FunctionType, *slots: Any) -> Any:
    """Call the function again uncompiled, with the argument slots of its frame, after its graph has raised.

    `errors`: the exception alone, which is taken out: its traceback holds what the graph has computed, which the caller must not keep alive meanwhile.
    """
    error = errors.pop()
    ours = isinstance(error, FramejitError)
    try:
        target = function if isinstance(error, Exception) else abort.raising(function, error)
        if target is None or ours:
            raise error
        exceptional.note(error, function)
        logs.info("graph_breaks", f"{function.__qualname__} runs uncompiled this time: its graph raised {type(error).__name__}: {error}")
    finally:
        del error  # whose traceback leads to this frame
    positional, keywords = arguments(function, slots)
    before = set_thread_disabled(True)
    try:
        return target(*positional, **keywords)
    finally:
        set_thread_disabled(before)


def run_where_check_failed(errors: list[BaseException], function: FunctionType, *slots: Any) -> Any:
    """Call `run_uncompiled` if a check of the program has failed in the graph. Any other error of the graph is raised unchanged."""
    error = errors[0]
    if not (type(error) is RuntimeError and error.args and str(error.args[0]).startswith(CHECK_FAILED)):
        del error
        raise errors.pop()
    del error
    return run_uncompiled(errors, function, *slots)


def with_eager_traceback(error: BaseException) -> BaseException:
    """The exception with the traceback that it has in eager, without the compiled frame and the functions that it has called here."""
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
    """A wrapper of `function` whose result looks like that of a split call's step: it chooses the resume function with this number, which returns the result
    unchanged.
    """

    def call(*args: Any) -> Any:
        return functools.partial(tuple, (choice, function(*args)))

    return call
