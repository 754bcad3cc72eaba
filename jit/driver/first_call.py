"""Sizes and numbers among the arguments of a call that runs uncompiled, so that those that differ in the next call are symbolic in the first entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from framejit.guards.dynamic import Dimensions
from framejit.guards.source import MISSING, Call, Index, Item, Local, Path, Root, Slot, Source

DEPTH = 4
"""The largest number of containers inside one another whose items are looked at."""

Seen = Mapping[Path, "tuple[int, ...] | int | float"]
"""The sizes of tensors, and numbers, by path."""


def sizes_and_numbers(call: Call) -> Seen:
    """The sizes of the tensors, and the ints and floats, that are arguments, or in lists, tuples and dicts that are arguments."""
    found: dict[Path, tuple[int, ...] | int | float] = {}
    root, names = Root(), call.function.__code__.co_varnames

    def note(value: Any, source: Source, depth: int) -> None:
        kind = type(value)
        if kind is torch.Tensor and value.layout is torch.strided:
            found[source.path()] = tuple(map(int, torch._C.TensorBase.size(value)))
        elif kind in (int, float):
            found[source.path()] = value
        elif kind in (list, tuple, dict) and depth:
            step = Item if kind is dict else Index
            for key, item in value.items() if kind is dict else enumerate(value):
                if type(key) in (int, str):
                    note(item, source.child(step, key), depth - 1)

    for index, value in enumerate(call.locals):
        if value is not MISSING:
            note(value, root.child(Local, Slot(index, names[index])), DEPTH)
    return found


def varying_between(before: Seen, now: Seen) -> dict[Path, Dimensions]:
    """The dimensions of tensors with as many dimensions, and the numbers of one type, that differ."""
    varying: dict[Path, Dimensions] = {}
    for path in before.keys() & now.keys():
        old, new = before[path], now[path]
        if type(old) is not type(new) or old == new:
            continue
        if not isinstance(old, tuple):
            varying[path] = None
        elif isinstance(new, tuple) and len(old) == len(new):
            varying[path] = frozenset(dim for dim, sizes in enumerate(zip(old, new)) if sizes[0] != sizes[1])
    return varying
