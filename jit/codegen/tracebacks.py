"""Traceback entries of exceptions that the trace raised: a stub for each frame that is gone, which raises at the same place."""

from __future__ import annotations

import inspect
from types import CodeType, FunctionType
from typing import Any

from framejit.bytecode import splice
from framejit.bytecode.instruction import Position

SUSPENDING = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


def traceback_stub(code: CodeType, position: Position, namespace: dict[str, Any]) -> FunctionType:
    """A function that raises its argument as `code` did at `position`: its frame has the same name, file, line and globals."""
    writer = splice.Writer([], position=position if position.lineno is not None else Position(code.co_firstlineno, None, None, None))
    writer.emit("RESUME", 0)
    writer.emit("LOAD_FAST", 0)
    writer.emit("RAISE_VARARGS", 1)
    made = splice.finish_step(code, writer, 0, 0, None, 0)
    return splice.function_of(made.replace(co_flags=made.co_flags & ~SUSPENDING), namespace)
