"""Ranges: constants that can be iterated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framejit.guards.source import Source
from framejit.objects.constobject import CONST_BUILDERS, ConstObject
from framejit.objects.iterobject import ConstantIterator, range_iterator
from framejit.objects.object import Object
from framejit.objects.registry import pure_methods, wraps

if TYPE_CHECKING:
    from framejit.objects.vm import VM

pure_methods(range)


class RangeObject(ConstObject):
    """A range: a constant that can be iterated."""

    __slots__ = ()

    def iter(self, vm: VM) -> Object:
        return ConstantIterator(self.constant(vm), range_iterator)


@wraps(range)
def wrap_range(vm: VM, value: range, source: Source) -> RangeObject:
    """A range from outside, guarded when looked at."""
    return RangeObject(value, source, pending=source is not None)


def const_range(vm: VM, value: range) -> RangeObject:
    """A real range that the trace made."""
    return RangeObject(value)


CONST_BUILDERS[range] = const_range
