"""Handles of hooks that the trace puts into dicts, those of modules for example: the number by which a dict knows a hook is drawn when it is needed.

So code that puts hooks on and takes them off again compiles once, however many handles there have been.
"""

from __future__ import annotations

import weakref
from typing import Any

from torch.utils.hooks import RemovableHandle

from framejit import breaks
from framejit.library import TORCH
from framejit.modules.app import removable_handle as app
from framejit.objects.delivery import Delivery
from framejit.objects.object import VM, Codegen, Object
from framejit.objects.registry import app as traced_as
from framejit.objects.registry import models

traced_as(RemovableHandle.__init__)(app.init)


class HookId(Object):
    """A number that no other handle has. All that is known of it is that it is none of the keys that torch's dicts of hooks have already."""

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


class WeakReferenceMade(Object):
    """A weakref.ref that the trace has made of a dict of hooks. Where its owner has let go of that, nobody sees what becomes of it."""

    __slots__ = ("target",)

    def __init__(self, target: Object) -> None:
        super().__init__(weakref.ReferenceType)
        self.target = target

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        return self.target

    def truth(self, vm: VM) -> bool:
        return True

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.target)
        cg.call_const(weakref.ref, 1)

    def referents(self) -> list[Object]:
        return [self.target]


@models(app.weak_reference)
def weak_reference(vm: VM, value: Object) -> Object:
    return WeakReferenceMade(vm.observe(value))


@models(app.next_id)
def next_id(vm: VM) -> Object:
    return HookId()
