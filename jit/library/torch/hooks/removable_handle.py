"""Handles of hooks that the trace puts into dicts, for example into those of modules: the number of a handle is only drawn when it is needed.

So code that adds and removes hooks compiles once, however many handles there have been.
"""

from __future__ import annotations

from typing import Any

from torch.utils.hooks import RemovableHandle

from framejit import breaks
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.core.registry import app as traced_as
from framejit.objects.core.registry import models
from framejit.plain import removable_handle as app
from framejit.program.code_kinds import TORCH

traced_as(RemovableHandle.__init__)(app.init)


class HookId(Object):
    """A number that no other handle has. It is only known to be none of the keys that torch's dicts of hooks already have."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(int)

    def hash_key(self, vm: VM) -> Any:
        if vm.frame is None or not vm.frame.code.co_filename.startswith(TORCH):
            vm.unsupported(breaks.UnsupportedOperation("looking up the id of a handle that the compiled function has made"))
        return self

    def reconstruct(self, cg: Codegen) -> None:
        cg.call_const(draw_id, 0)


def draw_id() -> int:
    """The next number for a handle (runs in generated code)."""
    found = RemovableHandle.next_id
    RemovableHandle.next_id += 1
    return found


@models(app.next_id)
def next_id(vm: VM) -> Object:
    return HookId()
