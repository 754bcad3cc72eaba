"""Lengths of lists and deques from outside: symbolic numbers once they have been seen to vary, and those of deques open until their value is needed."""

from __future__ import annotations

from typing import Any

from framejit.guards.container_sources import ItemCount
from framejit.guards.source import Source
from framejit.objects.core.object import VM
from framejit.objects.numbers.numberobject import NumberObject


def length_outside(source: Source, value: Any, family: type) -> NumberObject:
    """The length that a list or deque from outside has when the call begins. Nothing is guarded until its value is asked for."""
    return NumberObject(family.__len__(value), source.child(ItemCount, 0), pending=True)  # type: ignore[attr-defined]


def varying_length(vm: VM, source: Source, value: Any, family: type, appended: int) -> NumberObject | None:
    """The length of a list or deque whose contents aren't known, with what the trace has appended; None if the length outside hasn't been seen to vary."""
    number = length_outside(source, value, family)
    if number.symbolic(vm) is None:
        return None
    if appended == 0:
        return number
    total = number.binary_op(vm, "+", NumberObject(appended), False)
    assert isinstance(total, NumberObject)
    return total
