"""Which frames of a call stack are shown: the program's, and the place where it happened; not what libraries put around calls."""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType, FunctionType
from typing import Any

from framejit.compiled_module import module_in
from framejit.errors import UserFrame
from framejit.library import INSTALLED, OURS, STANDARD_LIBRARY, TORCH

AROUND_CALLS = tuple(TORCH + path for path in ("nn/modules/module.py", "nn/modules/container.py", "utils/_contextlib.py", "amp/autocast_mode.py"))
"""Parts of torch whose frames only call the next one."""

HIDDEN = (*AROUND_CALLS, OURS)


def caller(frame: Any) -> Any:
    """The innermost frame of an interpreted stack to name for what a hidden frame does; that frame itself, where nothing else is around it."""
    outer = frame
    while outer is not None and outer.code.co_filename.startswith(HIDDEN):
        outer = outer.parent
    return frame if outer is None else outer


def shown(stack: Sequence[UserFrame]) -> list[UserFrame]:
    """The frames to show: the program's and its packages', and the innermost one of torch's or the standard library's if it ends there."""
    kept = [frame for frame in stack if not is_of_library(frame.filename)]
    last = stack[-1] if stack else None
    if last is not None and is_of_library(last.filename) and not (kept and last.filename.startswith(HIDDEN)):
        kept.append(last)
    return kept


def is_of_library(filename: str) -> bool:
    """Whether a file is torch's, framejit's or the standard library's. Models in other packages are as good as the program's."""
    return filename.startswith((TORCH, OURS)) or (filename.startswith(STANDARD_LIBRARY) and not filename.startswith(INSTALLED))


def home(function: FunctionType, first: Any) -> CodeType:
    """The code to show for calls of a function with this first argument: where torch's runs every module's calls, that of the forward."""
    module = module_in(first) if function.__code__.co_filename.startswith(AROUND_CALLS) else None
    forward: Any = getattr(type(module), "forward", None)
    code = getattr(forward, "__code__", None)
    return code if isinstance(code, CodeType) else function.__code__
