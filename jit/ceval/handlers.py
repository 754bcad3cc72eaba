"""Finds out which handlers of the program an exception would reach if it were raised in the present frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framejit.bytecode.instruction import Instruction
from framejit.ceval.frame import Frame
from framejit.objects.core.object import Object, settle
from framejit.program import classes

LIBRARIES = ("torch", "contextlib", "framejit")


def meets_handler(frame: Frame | None) -> bool:
    """Return whether a handler of this frame or its callers would see the exception: `except`, `finally`, or a `with` block's `__exit__`.

    torch's own are not counted, because they restore what the graph restores too, unless their block was entered before the trace began.
    """
    while frame is not None:
        handler = frame.decoded.handler_at[frame.pc]
        while handler is not None:
            first, *rest = frame.decoded.instructions[handler.target : handler.target + 3]
            if first.op == "PUSH_EXC_INFO" and not is_of_library(frame):
                slots = next((instruction.arg for instruction in rest if instruction.op == "WITH_EXCEPT_START"), None)
                if slots is None or not is_left_alone(frame.stack[handler.depth - slots]):
                    return True
            handler = frame.decoded.handler_at[handler.target]
        frame = frame.parent
    return False


def is_caught(frame: Frame | None) -> bool:
    """Return whether an `except` of this frame or its callers might catch the exception, so that it isn't a failure but a path that the program takes."""
    while frame is not None:
        handler = frame.decoded.handler_at[frame.pc]
        while handler is not None:
            if has_except(frame.decoded.instructions, handler.target) and not is_of_library(frame):
                return True
            handler = frame.decoded.handler_at[handler.target]
        frame = frame.parent
    return False


def has_except(instructions: Sequence[Instruction], target: int) -> bool:
    """Return whether a handler is that of an `except`; `finally` and `with` usually raise the exception again."""
    if instructions[target].op != "PUSH_EXC_INFO":
        return False
    if instructions[target + 1].op == "POP_TOP":
        return True
    for instruction in instructions[target + 1 :]:
        if instruction.op in ("CHECK_EXC_MATCH", "CHECK_EG_MATCH"):
            return True
        if "JUMP" in instruction.op or instruction.op in ("RERAISE", "WITH_EXCEPT_START", "POP_TOP", "STORE_FAST"):
            return False
    return False


def is_of_library(frame: Frame) -> bool:
    """Return whether the frame belongs to a library whose handlers compiled code takes into account."""
    name = frame.globals.value.get("__name__")
    return isinstance(name, str) and name.partition(".")[0] in LIBRARIES


def is_left_alone(leave: Any) -> bool:
    """Return whether a bound `__exit__` on the stack, of a block entered in this trace, is a library's."""
    if not isinstance(leave, Object):
        return False
    method = settle(leave)
    receiver = getattr(method, "receiver", None)
    if method.source is not None or receiver is None:
        return False
    cls = settle(receiver).cls
    owner = classes.module(cls)
    return isinstance(owner, str) and owner.partition(".")[0] in LIBRARIES and classes.name(cls) != "_GeneratorContextManager"
