"""Makes traceback entries for exceptions that the trace raised in inlined frames, which never existed."""

from __future__ import annotations

import inspect
from types import CodeType, TracebackType
from typing import Any

from framejit._runtime import stopped_frame
from framejit.errors import program_name
from framejit.quick_dataclass import dataclass

WITH_VARIABLES = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_NESTED


@dataclass(frozen=True, slots=True, eq=False)
class Passed:
    """A place that an exception has passed: the instruction at a byte offset in the code, which is one made by `without_variables`.

    The code is made once for a trace, since resume functions guard the codes of the tracebacks that they look at.
    """

    code: CodeType
    offset: int
    lineno: int
    namespace: dict[str, Any]

    def ahead_of(self, traceback: TracebackType | None) -> TracebackType:
        """The traceback with an entry for this place before it. The entry's frame has the code's name, file, lines and globals, but no variables and no caller.

        A frame that really ran would keep its caller alive, and through that the exception would refer to itself.
        """
        frame = stopped_frame(self.code, self.namespace, self.offset)
        return TracebackType(traceback, frame, self.offset, self.lineno)


def without_variables(code: CodeType) -> CodeType:
    """A copy of the code with the same instructions and positions, for frames that don't run. For a resume function, it has the names of the function that it
    continues."""
    return code.replace(
        co_name=program_name(code.co_name), co_qualname=program_name(code.co_qualname),
        co_argcount=0, co_posonlyargcount=0, co_kwonlyargcount=0, co_nlocals=0, co_varnames=(), co_cellvars=(), co_freevars=(),
        co_flags=code.co_flags & ~WITH_VARIABLES,
    )  # fmt: skip
