"""Counts and logs graph breaks that have split calls."""

from __future__ import annotations

from collections.abc import Sequence

from framejit import logs
from framejit.errors import UserFrame
from framejit.program import code_kinds
from framejit.report import STATISTICS, BreakNote, place


def report_break(broke: BreakNote) -> None:
    """Count and log a graph break that has split a call."""
    STATISTICS.add("graph_breaks")
    STATISTICS.reason(f"{broke.reason}{at(broke.stack)}")
    logs.graph_break(broke)


def at(stack: Sequence[UserFrame]) -> str:
    """The place of a break, as the end of a sentence; empty if unknown. For a break in a library's code, the line of the program that called it comes first."""
    if not stack:
        return ""
    inner = stack[-1]
    callers = [frame for frame in stack if not code_kinds.is_installed_file(frame.filename)]
    if not callers or callers[-1] is inner:
        return f" at {place(stack)}"
    return f" at {place(callers)} (in {code_kinds.importable(inner.filename)}:{inner.lineno})"
