"""Finds what varies in the state of a split call, so that resume functions needn't learn it: sizes and numbers that depend on data, and computed data."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import torch
from torch import fx

from framejit.guards.dynamic import DATA, Dimensions
from framejit.guards.source import CellContents, Path
from framejit.objects.arrays.arrayoperands import is_unbacked
from framejit.objects.core.object import Object, settle
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.types.cellobject import CellObject

MOST_VALUES = 256
"""The most values in lists, iterators and the like that are looked at in search of tensors."""


def varying_of(value: Object | None, place: Path) -> Iterator[tuple[Path, Dimensions]]:
    """The paths of numbers, of tensors (with their dimensions) and of data that vary in the value of a variable. `place`: the path of the value."""
    if isinstance(value, CellObject):
        value, place = value.content, (*place, (CellContents, None))
    value = None if value is None else settle(value)
    if value is None or value.source is not None:
        return
    for part, path in parts(value, place):
        if isinstance(part, TensorObject):
            sizes = varying_sizes(part.fake)
            if sizes:
                yield path, sizes
        elif part.depends_on_data and part.cls in (int, float):
            yield path, None
    if holds_computed(value):
        yield (*place, DATA), None


def parts(value: Object, place: Path) -> Iterator[tuple[Object, Path]]:
    """A value that the trace has made, and those in its items and attributes, and in the variables of generators, with the paths to them."""
    seen: set[int] = set()
    waiting = [(value, place)]
    while waiting and len(seen) <= MOST_VALUES:
        found, path = waiting.pop()
        found = settle(found)
        if id(found) in seen or found.source is not None:
            continue
        seen.add(id(found))
        yield found, path
        waiting += [(part, (*path, *steps)) for steps, part in islice(found.held_values(), MOST_VALUES)]


def varying_sizes(fake: torch.Tensor) -> frozenset[int]:
    """The dimensions of a tensor whose sizes depend on data."""
    return frozenset(dim for dim, size in enumerate(fake.shape) if is_unbacked(size)) if fake.layout is torch.strided else frozenset()


def holds_computed(value: Object) -> bool:
    """Return whether a value is, or holds, a tensor that the call has computed from floats from outside."""
    seen, waiting = {id(value)}, [value]
    while waiting and len(seen) <= MOST_VALUES:
        held = settle(waiting.pop())
        if held.source is not None:
            continue
        if isinstance(held, TensorObject):
            if is_computed_from_floats(held.node):
                return True
            continue
        found = [part for part in held.referents() if id(part) not in seen]
        seen.update(map(id, found))
        waiting += found
    return False


def is_computed_from_floats(node: fx.Node) -> bool:
    """Return whether a node's result depends on a tensor of floats from outside."""
    seen, waiting = {node}, [node]
    while waiting:
        part = waiting.pop()
        fake = part.meta.get("example_value")
        if part.op == "placeholder" and isinstance(fake, torch.Tensor) and fake.dtype.is_floating_point:
            return True
        found = [other for other in part.all_input_nodes if other not in seen]
        seen.update(found)
        waiting += found
    return False
