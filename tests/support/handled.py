"""Outcomes of a function in each of the contexts in which a caller may be handling an exception."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any


def caller_contexts() -> list[Callable[[Callable[[], None]], None]]:
    """Return functions that each make a call in another context of exception handling."""

    def plain(call):
        call()

    def in_except(call):
        try:
            1 / 0
        except ZeroDivisionError:
            call()

    def in_finally(call):
        with contextlib.suppress(KeyError):
            try:
                {}["a"]
            finally:
                call()

    def in_nested(call):
        try:
            raise ValueError("outer")
        except ValueError:
            try:
                raise IndexError(1, 2)
            except IndexError:
                call()
            call()

    def in_exit(call):
        class Calls:
            def __enter__(self):
                pass

            def __exit__(self, *exc):
                call()
                return True

        with Calls():
            raise OSError("left")

    def in_generator(call):
        def handles():
            try:
                raise TypeError("in the generator")
            except TypeError:
                yield call()

        try:
            raise LookupError
        except LookupError:
            list(handles())

    return [plain, in_except, in_finally, plain, in_nested, in_exit, in_generator, in_except]


def portrait(error: BaseException | None, depth: int = 6) -> Any:
    """Return an exception as text, with its contexts, causes and notes."""
    if error is None or not depth:
        return None
    notes = getattr(error, "__notes__", None)
    return repr(error), portrait(error.__context__, depth - 1), portrait(error.__cause__, depth - 1), error.__suppress_context__, notes


def outcomes(function: Callable[[Any], Any], argument: Any) -> list[Any]:
    """Return the result or exception of a call, and its output, for each of the contexts."""
    found = []

    def call():
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                result = "returned", repr(function(argument))
            except BaseException as error:
                result = "raised", portrait(error)
        found.append((result, printed.getvalue()))

    for context in caller_contexts():
        context(call)
    return found
