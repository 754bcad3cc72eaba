"""Ranges: constants that can be iterated."""

from __future__ import annotations

import sys

from framejit import breaks
from framejit.guards.source import Source
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import pure_methods, wraps
from framejit.objects.types.constobject import CONST_BUILDERS, ConstObject
from framejit.objects.types.iterobject import ConstantIterator, range_iterator

pure_methods(range)


class RangeObject(ConstObject):
    """A range: a constant that can be iterated."""

    __slots__ = ()

    def iter(self, vm: VM) -> Object:
        return ConstantIterator(short_range(vm, self.constant(vm)), range_iterator)


def short_range(vm: VM, numbers: range) -> range:
    """A range whose iterator is that of machine integers. Breaks for others, whose iterators have another type."""
    if not all(-sys.maxsize <= part < sys.maxsize for part in (numbers.start, numbers.stop, numbers.step)) or type(iter(numbers)) is not range_iterator:
        vm.unsupported(breaks.UnsupportedOperation("iteration over a range of numbers beyond 64 bits"))
    return numbers


@wraps(range)
def wrap_range(vm: VM, value: range, source: Source) -> RangeObject:
    """Wrap a range from outside, which is guarded when its value is asked for."""
    return RangeObject(value, source, pending=source is not None)


def const_range(vm: VM, value: range) -> RangeObject:
    """A real range that the trace made."""
    return RangeObject(value)


CONST_BUILDERS[range] = const_range
