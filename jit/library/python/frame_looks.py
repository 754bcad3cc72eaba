"""sys._getframe(): a frame says while tracing which code it runs, at which line, with which globals, and what has called it.

    filename, lineno = sys._getframe(1).f_code.co_filename, sys._getframe(1).f_lineno

Anything else that the program asks of a frame splits the graph, and so does a frame that is kept where native code sees it.
"""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import NoReturn

from framejit import breaks
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.core.registry import models
from framejit.objects.core.vm import FrameView

REASON = breaks.FrameIntrospection("sys._getframe()")


class FrameOfTrace(Object):
    """A frame of the trace that the program has asked for, at the instruction `place`."""

    __slots__ = ("frame", "vm", "place")
    is_true = True

    def __init__(self, vm: VM, frame: FrameView[Object], place: tuple[CodeType, int]) -> None:
        super().__init__(FrameType)
        self.vm = vm
        self.frame = frame
        self.place = place

    def getattr(self, vm: VM, name: str) -> Object:
        frame = self.frame
        if not frame.has_ended:
            if name == "f_code":
                return vm.const(frame.code_of_program)
            if name == "f_lineno":
                return vm.const(frame.lineno)
            if name == "f_globals":
                return frame.globals
            if name == "f_back":
                return self.caller(vm)
        self.leave_to_native()

    def caller(self, vm: VM) -> Object:
        """The frame that has called this one. The trace is restarted if it doesn't know that."""
        outer = self.frame.direct_caller()
        return self.leave_to_native() if outer is None else object_of(vm, outer, self.place)

    def leave_to_native(self) -> NoReturn:
        """Restart the trace, and break where the program has asked for the frame."""
        self.vm.restart(self.place, REASON)

    def reconstruct(self, cg: Codegen) -> None:
        self.leave_to_native()


def object_of(vm: VM, frame: FrameView[Object], place: tuple[CodeType, int]) -> Object:
    """The frame as the program sees it: one object, however often it asks."""
    if frame.as_object is None:
        vm.trail.fill(frame, "as_object", FrameOfTrace(vm, frame, place))
    found: Object = frame.as_object
    return found


@models(sys._getframe)
def frame_at(vm: VM, depth: Object | None = None) -> Object:
    level = 0 if depth is None else vm.observe(depth).constant(vm)
    place, frame = vm.place(), vm.frame
    if type(level) is not int:
        vm.unsupported(REASON)
    for _ in range(level):
        frame = None if frame is None else frame.direct_caller()
    if frame is None:
        vm.unsupported(REASON)
    return object_of(vm, frame, place)
