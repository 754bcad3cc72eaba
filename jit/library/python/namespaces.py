"""globals() and locals(): the namespaces of the frame that asks; and dir(): the names of an object, or of that frame, which breaks."""

from __future__ import annotations

import inspect
import itertools
from types import ModuleType

from framejit import breaks
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import app, models
from framejit.objects.core.vm import FrameView
from framejit.objects.types.cellobject import CellObject
from framejit.objects.types.dictobject import DictObject, dict_of
from framejit.plain import namespaces as plain

app(object.__dir__)(plain.names_of_object)
app(type.__dir__)(plain.names_of_class)
app(ModuleType.__dir__)(plain.names_of_module)


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


@models(dir)
def dir_(vm: VM, obj: Object | None = None, /) -> Object:
    """The names of an object. Those of its class are guarded as they are where its `__dict__` is read."""
    if obj is None:
        vm.unsupported(breaks.FrameIntrospection("dir()"))
    return vm.call_app(plain.names_of, [obj])
