"""The overrides of torch's functions that a trace asks first: the stack of function modes, and whether subclasses' `__torch_function__` are asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

from framejit.objects.core.latercall import LaterCall
from framejit.objects.core.object import Object
from framejit.torch_state.torch_function_stack import restack
from framejit.trail import Trail

ALL, NO_SUBCLASSES, NOTHING = 0, 1, 2
"""The levels of overriding torch's functions: by modes and subclasses, by modes alone (`DisableTorchFunctionSubclass`), by nothing (`DisableTorchFunction`)."""


def level_in_force() -> int:
    """The level of overriding in force on this thread."""
    if torch._C._is_torch_function_all_disabled():
        return NOTHING
    return ALL if torch._C._is_torch_function_enabled() else NO_SUBCLASSES


class FunctionModes:
    """The state of one trace; changed through the trail.

    Attributes:
        initial: the program's modes that are in force at the call, the innermost last.
        stack: the modes that are asked, the innermost last.
        level: the level of overriding.
    """

    def __init__(self, trail: Trail) -> None:
        self._trail = trail
        self.initial: tuple[Object, ...] = ()
        self.stack: tuple[Object, ...] = ()
        self.level = level_in_force()

    def begin(self, modes: tuple[Object, ...]) -> None:
        """Begin the trace with these modes of the program in force."""
        self.initial = self.stack = modes

    def final_differences(self) -> list[LaterCall]:
        """The effect of the modes that the trace so far leaves in force, if they aren't the same as at its beginning."""
        same = 0
        for before, now in zip(self.initial, self.stack):
            if before is not now:
                break
            same += 1
        ended, begun = len(self.initial) - same, self.stack[same:]
        return [LaterCall(restack, (ended, *begun))] if ended or begun else []

    def set_level(self, level: int) -> None:
        """Set the level of overriding from here on."""
        self._trail.set(self, "level", level)

    def set_stack(self, stack: tuple[Object, ...]) -> None:
        """Put these modes in force."""
        self._trail.set(self, "stack", stack)

    def asks_modes(self) -> bool:
        """Return whether a mode is asked before each function."""
        return bool(self.stack) and self.level != NOTHING

    def asks_subclasses(self) -> bool:
        """Return whether arguments are asked."""
        return self.level == ALL

    @contextmanager
    def at_level(self, level: int) -> Iterator[None]:
        """Inside the block, the level of overriding is this one."""
        before = self.level
        self.set_level(level)
        try:
            yield
        finally:
            self.set_level(before)

    def hidden(self) -> AbstractContextManager[None]:
        """Inside the block, no mode and no argument is asked: for tensors that stand for something else."""
        return self.at_level(NOTHING)

    @contextmanager
    def without_innermost(self) -> Iterator[Object]:
        """Inside the block, the innermost mode is not in force, as it isn't while it answers."""
        before = self.stack
        self.set_stack(before[:-1])
        try:
            yield before[-1]
        finally:
            self.set_stack(before)
