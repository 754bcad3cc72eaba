"""Chooses the frames of a call stack that reports show: the program's, and the innermost one, but not those that libraries put around calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framejit.errors import UserFrame
from framejit.program.code_kinds import HIDDEN, is_library_file


def caller(frame: Any) -> Any:
    """The frame that reports name instead of a hidden one: the innermost caller that isn't hidden, or the frame itself if there is none."""
    outer = frame
    while outer is not None and outer.code.co_filename.startswith(HIDDEN):
        outer = outer.parent
    return frame if outer is None else outer


def shown(stack: Sequence[UserFrame]) -> list[UserFrame]:
    """The frames of a stack to show: those of the program and its packages. If the stack ends in torch or the standard library, its last frame is shown too."""
    kept = [frame for frame in stack if not is_library_file(frame.filename)]
    last = stack[-1] if stack else None
    if last is not None and is_library_file(last.filename) and not (kept and last.filename.startswith(HIDDEN)):
        kept.append(last)
    return kept
