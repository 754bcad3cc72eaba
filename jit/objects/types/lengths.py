"""Lengths of lists and deques from outside, as symbolic numbers once they have been seen to vary."""

from __future__ import annotations

from typing import Any

from framejit.guards.container_sources import ItemCount
from framejit.guards.source import Source
from framejit.objects.core.object import VM
from framejit.objects.numbers.numberobject import NumberObject


def varying_length(vm: VM, source: Source, value: Any, family: type, appended: int) -> NumberObject | None:
    """The length of a list or deque whose contents aren't known, with what the trace has appended; None if the length outside hasn't been seen to vary."""
    number = NumberObject(family.__len__(value), source.child(ItemCount, 0), pending=True)  # type: ignore[attr-defined]
    if number.symbolic(vm) is None:
        return None
    if appended == 0:
        return number
    total = number.binary_op(vm, "+", NumberObject(appended), False)
    assert isinstance(total, NumberObject)
    return total
