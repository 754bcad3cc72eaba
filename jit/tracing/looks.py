"""Finds code that inspects the program's frames: debuggers, readers of frames, and exec() and what follows it. Such frames run uncompiled, to their end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import CodeType
from typing import Any

from framejit import breaks
from framejit.bytecode.decode import Decoded
from framejit.ceval.frame import Frame
from framejit.program.code_kinds import CodeKind, kind_of
from framejit.tracing.stops import GraphBreak

LOOKS = frozenset({"locals", "vars", "dir", "eval", "exec"})
"""Builtins that see the variables of the function that calls them, including those that exec() has made."""

FRAME_GETTERS = frozenset({"_getframe", "currentframe"})
LATER = frozenset({"f_locals", "f_lineno", "f_lasti"})
"""Attributes of a frame that change while it runs."""

NAMESPACES = {"eval()": 1, "exec()": 1, "locals()": 0, "vars()": 0}
"""Builtins that may affect later inspections, with the number of arguments with which each uses the caller's variables."""


def by_debugger(code: CodeType, namespace: Mapping[str, Any]) -> breaks.Debugger | None:
    """The break reason for calls of a debugger's function; None for other functions."""
    name = namespace.get("__name__")
    if isinstance(name, str) and name.partition(".")[0] in breaks.Debugger.packages and kind_of(code, namespace) is not CodeKind.PROGRAM:
        return breaks.Debugger(f"{name}.{code.co_qualname}()")
    return None


def to_split(stop: GraphBreak) -> Sequence[Frame]:
    """The frames in which a trace has stopped that may be split, outermost first. Inside them, the instruction runs uncompiled."""
    skipped = isinstance(stop.reason, breaks.SkippedFrame) or innermost_uncompiled(stop)
    frames = stop.frames[:-1] if skipped else stop.frames
    return frames[: next((place for place, frame in enumerate(frames) if reads_variables_of_frames(frame)), len(frames))]


def reads_variables_of_frames(frame: Frame) -> bool:
    """Return whether a function of the program reads the variables of frames, or the current lines of frames of tracebacks. One of them may be its own, if
    another function or a traceback has kept that frame."""
    names = frame.code.co_names
    reads = "f_locals" in names or ("tb_frame" in names and not LATER.isdisjoint(names))
    return reads and kind_of(frame.code, frame.globals.value) is CodeKind.PROGRAM


def innermost_uncompiled(stop: GraphBreak) -> bool:
    """Return whether the innermost frame must run uncompiled: only a later inspection shows what the instruction at fault does with its variables."""
    if not stop.frames:
        return False  # the trace has ended: no instruction is at fault
    frame: Frame = stop.frames[-1]
    if keeps_frame(frame):
        return True
    if not isinstance(stop.reason, breaks.FrameIntrospection) or stop.reason.what not in NAMESPACES:
        return False
    count = NAMESPACES[stop.reason.what]
    return frame.instruction.op == "CALL" and frame.instruction.arg == count and looks_repeatedly(frame.decoded)


def keeps_frame(frame: Frame) -> bool:
    """Return whether a function of the program is about to keep its own frame, to inspect it later."""
    decoded = frame.decoded
    if frame.instruction.op != "CALL" or kind_of(frame.code, frame.globals.value) is not CodeKind.PROGRAM:
        return False
    following = decoded.instructions[frame.pc + 1]
    gives_frame = any(each.value in FRAME_GETTERS for each in decoded.instructions[max(frame.pc - 4, 0) : frame.pc] if each.op.startswith("LOAD_"))
    return gives_frame and following.op not in ("LOAD_ATTR", "LOAD_METHOD") and not LATER.isdisjoint(frame.code.co_names)


def looks_repeatedly(decoded: Decoded) -> bool:
    """Return whether a function inspects its variables more than once."""
    places = [index for index, each in enumerate(decoded.instructions) if each.op in ("LOAD_GLOBAL", "LOAD_NAME") and each.value in LOOKS]
    ends = [index for index, each in enumerate(decoded.instructions) if each.op == "JUMP" and places and each.value <= places[0]]
    return len(places) > 1 or any(index > places[0] for index in ends)


def uses_up_result(frame: Frame) -> bool:
    """Return whether the dict that a frame asks for may be a separate one: the frame asks only once, or it only searches the dict, or asks it for an item.

    Up to Python 3.12 it is the same dict each time, which a later inspection fills again, and the order of its keys shows earlier ones.
    """
    following = frame.decoded.instructions[frame.pc + 1 : frame.pc + 3]
    if frame.instruction.op != "CALL" or frame.instruction.arg is None:
        return False
    first, second = following[0], following[-1]
    if first.op == "CONTAINS_OP" or (first.op == "LOAD_METHOD" and first.value == "get"):
        return True
    return (first.op in ("LOAD_CONST", "LOAD_FAST") and second.op == "BINARY_SUBSCR") or not looks_repeatedly(frame.decoded)
