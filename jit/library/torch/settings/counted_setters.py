"""Setters of the whole process, while calls of them are counted because something is compiled beside the program (torch_state/thread_state.py)."""

from __future__ import annotations

from framejit import breaks
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models
from framejit.process import underway
from framejit.torch_state.thread_state import COUNTING


@models(*COUNTING.values())
def counted_setter(vm: VM, *args: Object, **kwargs: Object) -> Object:
    """On the thread beside the program, the compilation is abandoned."""
    underway.changes_process()
    vm.unsupported(breaks.GlobalStateUnsupported("a setting of the process, while a thread beside the program compiles"))
