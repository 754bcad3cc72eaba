"""Handles a trace that would be too long or too deep: the function that loops, or calls itself, is left to native code, and the rest is compiled.

    def forward(self, x):
        x = self.first(x)
        x = walk(x, 100_000)      # too many iterations to be unrolled: the call is split here
        return self.last(x)

The graph so far is useless, because it contains the iterations. So the trace is restarted, and breaks where that function is called. The functions that the
native code calls are compiled separately (upcalls.py). If the traced function itself is the one that loops, there is no such place: it runs uncompiled.
"""

from __future__ import annotations

from collections import Counter
from typing import NoReturn

from framejit import breaks
from framejit.bytecode.splice import original_offset
from framejit.ceval.frame import Frame
from framejit.program import code_kinds
from framejit.tracing.app_namespace import AppNamespace
from framejit.tracing.stops import GraphBreak, Restart
from framejit.tracing.trace import Trace

OF_PROGRAM = (code_kinds.CodeKind.PROGRAM, code_kinds.CodeKind.TENSORS)
"""Kinds of code whose loops count as the program's."""


def loops(frame: Frame) -> bool:
    """Return whether a loop of the program may reach a frame's present place again; loops of library machinery don't count."""
    return frame.is_in_loop() and code_kinds.kind_of(frame.code, frame.globals.value) in OF_PROGRAM


def too_long(tracer: Trace, innermost: Frame) -> NoReturn:
    """Stop a trace that has reached the limit of iterations. The outermost loop is left to native code."""
    outermost_first = [*innermost.callers()][::-1]
    frame = next((frame for frame in outermost_first if loops(frame)), innermost)
    leave(tracer, frame, breaks.TooLong(frame.code.co_qualname))


def too_deep(tracer: Trace, innermost: Frame) -> NoReturn:
    """Stop a trace that has reached the limit of nested calls. The outermost call of the function that calls itself, the one with most of the calls, is left
    to native code."""
    outermost_first = [*innermost.callers()][::-1]
    counts = Counter(id(frame.code) for frame in outermost_first)
    most = max(counts.values())
    frame = next(frame for frame in outermost_first if counts[id(frame.code)] == most)
    leave(tracer, frame, breaks.TooDeep(innermost.code.co_qualname))


def leave(tracer: Trace, frame: Frame, reason: breaks.Break) -> NoReturn:
    """Restart the trace, to break where this frame is called. The traced frame runs uncompiled if that isn't a call by the program."""
    is_called = frame.parent is not None and not isinstance(frame.globals, AppNamespace) and original_offset(frame.code, 0) is None
    if is_called and frame.code not in tracer.breaks_at:
        raise Restart(frame.code, reason)
    raise GraphBreak(reason, tracer.user_stack())  # without frames: none of them is to be split
