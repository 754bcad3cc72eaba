"""Differences of two times that are others in each call, such as those of a clock: a number of microseconds is symbolic, and nothing of it is guarded."""

from __future__ import annotations

import datetime
from types import MemberDescriptorType
from typing import Any

from framejit.objects.core import abstract, operators
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.core.registry import around

SECOND = 10**6
DAY = 86400 * SECOND
TICK = datetime.timedelta(microseconds=1)
PARTS: dict[str, tuple[tuple[str, int], ...]] = {
    "days": (("//", DAY),), "seconds": (("%", DAY), ("//", SECOND)), "microseconds": (("%", SECOND),),
}  # fmt: skip
"""The operations that give a part of a difference from its number of microseconds (Modules/_datetimemodule.c: microseconds_to_delta)."""


class ElapsedTime(Object):
    """A timedelta that the trace has computed. `total`: the number of microseconds."""

    __slots__ = ("total",)

    def __init__(self, total: Object) -> None:
        super().__init__(datetime.timedelta)
        self.total = total

    def get_slot(self, vm: VM, member: MemberDescriptorType) -> Object:
        found = self.total
        for symbol, number in PARTS[member.__name__]:
            found = operators.binary_op(vm, symbol, found, vm.const(number))
        return found

    def truth(self, vm: VM) -> bool:
        return abstract.truth(vm, self.total)

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        length = length_of(vm, other)
        if length is None:
            return None
        return operators.compare(vm, symbol, *((length, self.total) if reflected else (self.total, length)))

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        length = length_of(vm, other) if symbol in ("/", "//", "%") and not reflected else None
        if length is None:
            return None
        found = operators.binary_op(vm, symbol, self.total, length)
        return ElapsedTime(found) if symbol == "%" else found

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(0)
        cg.load_const(0)
        cg.load(self.total)
        cg.call_const(datetime.timedelta, 3)

    def referents(self) -> list[Object]:
        return [self.total]


def length_of(vm: VM, obj: Object) -> Object | None:
    """The microseconds of such a difference, or of a known timedelta; None for other values."""
    if isinstance(obj, ElapsedTime):
        return obj.total
    return vm.const(obj.constant(vm) // TICK) if obj.cls is datetime.timedelta and obj.is_knowable() else None


@around(datetime.timedelta.total_seconds)
def total_seconds(vm: VM, self: Object, *, own: Any) -> Object:
    """Modules/_datetimemodule.c: delta_total_seconds divides ints."""
    return operators.binary_op(vm, "/", self.total, vm.const(SECOND)) if isinstance(self, ElapsedTime) else own(vm, self)
