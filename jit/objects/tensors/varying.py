"""Finds what varies in the state of a split call, so that resume functions needn't learn it: sizes and numbers that depend on data, and computed data."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import torch
from torch import fx

from framejit.guards.container_sources import IteratorItem
from framejit.guards.dynamic import DATA, Dimensions
from framejit.guards.generators import SuspendedSlot
from framejit.guards.source import CellContents, Index, InstanceDict, Item, Path, Slot
from framejit.objects.arrays.arrayoperands import is_unbacked
from framejit.objects.core.object import Object, settle
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.types.cellobject import CellObject
from framejit.objects.types.genobject import GeneratorObject
from framejit.objects.types.instancedict import InstanceDictObject
from framejit.objects.types.iterobject import SequenceIterator
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.tupleobject import TupleObject

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
        waiting += [(part, (*path, *steps)) for part, steps in islice(contents_of(found), MOST_VALUES)]


def contents_of(value: Object) -> Iterator[tuple[Object, Path]]:
    """The values that a value which the trace has made holds, with the steps that lead there."""
    if isinstance(value, (TupleObject, ListObject)):
        yield from ((item, ((Index, index),)) for index, item in enumerate(value.elements or ()))
    elif isinstance(value, SequenceIterator) and isinstance(value.sequence, (TupleObject, ListObject)):
        yield from ((item, ((IteratorItem, index),)) for index, item in enumerate((value.sequence.elements or ())[value.index :]))
    elif isinstance(value, GeneratorObject):
        names = value.frame.decoded.slots
        slots = enumerate([*value.frame.locals, *value.frame.stack])
        yield from ((part, ((SuspendedSlot, Slot(i, names[i] if i < len(names) else "")),)) for i, part in slots if isinstance(part, Object))
    elif isinstance(value.attrs, InstanceDictObject):
        yield from ((part, ((InstanceDict, None), (Item, Item.key(name)))) for name, (_, part) in value.attrs.entries.items() if type(name) is str)


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
