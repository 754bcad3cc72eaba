"""The globals of framejit's own stand-ins in plain Python (jit/plain), as traced code sees them."""

from __future__ import annotations

from typing import Any

from framejit.guards.source import MISSING
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.types.dictobject import DictObject


class AppNamespace(DictObject):
    """The globals of stand-ins: they never change, so they aren't guarded."""

    __slots__ = ()

    def lookup(self, vm: VM, name: Any) -> Object | None:
        value = self.value.get(name, MISSING)
        return None if value is MISSING else vm.pin(value)

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.value)

    def needs_fill(self) -> bool:
        return False

    def referents(self) -> list[Object]:
        return []
