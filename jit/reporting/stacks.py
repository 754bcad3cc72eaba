"""Which frames of a call stack are shown: the program's, and the place where it happened; not what libraries put around calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framejit.errors import UserFrame
from framejit.library import HIDDEN, is_library_file


def caller(frame: Any) -> Any:
    """The innermost frame of an interpreted stack to name for what a hidden frame does; that frame itself, where nothing else is around it."""
    outer = frame
    while outer is not None and outer.code.co_filename.startswith(HIDDEN):
        outer = outer.parent
    return frame if outer is None else outer


def shown(stack: Sequence[UserFrame]) -> list[UserFrame]:
    """The frames to show: the program's and its packages', and the innermost one of torch's or the standard library's if it ends there."""
    kept = [frame for frame in stack if not is_library_file(frame.filename)]
    last = stack[-1] if stack else None
    if last is not None and is_library_file(last.filename) and not (kept and last.filename.startswith(HIDDEN)):
        kept.append(last)
    return kept
