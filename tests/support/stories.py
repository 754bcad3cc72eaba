"""Calls of a function as its caller sees them: results, exceptions with their tracebacks, what is printed, and the arguments afterwards."""

from __future__ import annotations

import contextlib
import copy
import io
import traceback
from collections.abc import Callable
from typing import Any

import torch
from agreement import Comparison

import framejit


def told(error: BaseException | None, depth: int = 0) -> list[Any]:
    """Return an exception's class, text, traceback and chain, as a caller sees them. Resume functions have the names of their originals."""
    if error is None or depth > 5:
        return []
    entries = [(entry.name.partition(" (resumed")[0], entry.lineno, entry.filename) for entry in traceback.extract_tb(error.__traceback__)]
    return [
        type(error), str(error), [entry for entry in entries if entry[2] != __file__], error.__suppress_context__,
        told(error.__context__, depth + 1), told(error.__cause__, depth + 1),
    ]  # fmt: skip


def story(fn: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a call's result, its exception, its printed output, and its arguments afterwards."""
    out = io.StringIO()
    torch.manual_seed(0)
    result, error = None, None
    with contextlib.redirect_stdout(out):
        try:
            result = fn(*args)
        except Exception as caught:
            error = caught
    return result, told(error), out.getvalue(), args


def same_story(fn: Callable[..., Any], args: tuple[Any, ...], calls: int = 3) -> dict[str, Any]:
    """Assert that `calls` compiled calls have the same stories as eager ones; return the statistics of the compiled ones."""
    framejit.reset()
    compiled = framejit.compile(fn, backend="eager")
    for _ in range(calls):
        left, right = copy.deepcopy(args), copy.deepcopy(args)
        expected, got = story(fn, left), story(compiled, right)
        assert (expected[1], expected[2]) == (got[1], got[2])
        Comparison().same((expected[0], expected[3]), (got[0], got[3]))
    return framejit.statistics()
