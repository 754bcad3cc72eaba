"""globals() and locals(): the namespaces of the frame that asks."""

from __future__ import annotations

import inspect
import itertools

from framejit import breaks
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models
from framejit.objects.core.vm import FrameView
from framejit.objects.types.cellobject import CellObject
from framejit.objects.types.dictobject import DictObject, dict_of


def frame_of_program(vm: VM, what: str) -> FrameView[Object]:
    """The frame that a builtin reads: that of the Python code which calls it. Stand-ins have frames that don't exist in the program."""
    frame = vm.frame
    if frame is None or (isinstance(frame.globals.value, dict) and str(frame.globals.value.get("__name__")).startswith("framejit.")):
        vm.unsupported(breaks.FrameIntrospection(what))
    return frame


@models(globals)
def globals_(vm: VM) -> Object:
    return frame_of_program(vm, "globals()").globals


@models(locals)
def locals_(vm: VM) -> Object:
    """locals(), unless something keeps the dict: up to Python 3.12 each call fills the same one (Objects/frameobject.c: PyFrame_GetLocals)."""
    frame = frame_of_program(vm, "locals()")
    code = frame.code
    if frame.namespace is not None:
        return frame.namespace
    if not code.co_flags & inspect.CO_OPTIMIZED or not vm.uses_up_result():
        vm.unsupported(breaks.FrameIntrospection("locals()"))
    return variables_of(vm, frame)


def variables_of(vm: VM, frame: FrameView[Object]) -> DictObject:
    """A new dict of the variables that a function has bound."""
    code = frame.code
    found: list[tuple[Object, Object]] = []
    names = dict.fromkeys(itertools.chain(code.co_varnames, code.co_cellvars, code.co_freevars))
    for name, value in zip(names, frame.locals):
        content = value.load(vm) if isinstance(value, CellObject) and (name in code.co_cellvars or name in code.co_freevars) else value
        if content is not None:
            found.append((vm.const(name), content))
    return dict_of(vm, found)
