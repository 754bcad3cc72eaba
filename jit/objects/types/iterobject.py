"""Iterators over sequences, ranges, strings and other iterators, as lazy as CPython's; changes of their position are recorded on the trail."""

from __future__ import annotations

import array
import collections
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from framejit import breaks
from framejit._runtime import ITERATOR_FIELDS
from framejit.guards.container_sources import IteratorItem
from framejit.guards.source import MISSING, Index, Path
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Codegen, Object, Raise, drop_end, settle
from framejit.objects.core.registry import wraps
from framejit.plain import support
from framejit.program import classes

list_iterator: Any = type(iter([]))
list_reverse_iterator: Any = type(reversed([]))
tuple_iterator: Any = type(iter(()))
range_iterator: Any = type(iter(range(0)))
str_iterator: Any = type(iter("é"))
ascii_iterator: Any = type(iter(""))
bytes_iterator: Any = type(iter(b""))
bytearray_iterator: Any = type(iter(bytearray()))
array_iterator: Any = type(iter(array.array("b")))
callable_iterator: Any = type(iter(int, 1))


class IteratorObject(Object):
    """An iterator that the trace made: it is its own iterator."""

    __slots__ = ()
    is_true = True

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.source = None
        self.value = MISSING
        self.attrs = None

    def iter(self, vm: VM) -> Object:
        return self


class SequenceIterator(IteratorObject):
    """An iterator over a list, tuple or deque: it sees changes made while it runs; once exhausted, it stays so (Objects/listobject.c: listiter_next)."""

    __slots__ = ("sequence", "index")

    def __init__(self, sequence: Object | None, cls: type, index: int = 0) -> None:
        self.cls = cls
        self.source = None
        self.value = MISSING
        self.attrs = None
        self.sequence = sequence
        self.index = index

    def next(self, vm: VM) -> Object | None:
        sequence = self.sequence
        if sequence is None:
            return None
        index = self.index
        items = sequence.items(vm)  # type: ignore[attr-defined]
        if index < len(items):
            vm.trail.set(self, "index", index + 1)
            return items[index]
        vm.trail.set(self, "sequence", None)
        return None

    def length_hint(self, vm: VM) -> int | None:
        return 0 if self.sequence is None else max(0, len(self.sequence.items(vm)) - self.index)  # type: ignore[attr-defined]

    def reconstruct(self, cg: Codegen) -> None:
        if self.sequence is None:
            cg.load_const(list if self.cls is list_iterator else tuple)
            cg.call_const(exhausted, 1)
            return
        cg.load(self.sequence)
        cg.load_const(self.index)
        cg.call_const(list_iterator_at if self.cls is list_iterator else tuple_iterator_at, 2)

    def awaits(self) -> Object | None:
        return self.sequence

    def held_values(self) -> Iterator[tuple[Path, Object]]:
        """The items that are still to come."""
        for ((step, index), *_), item in () if self.sequence is None else self.sequence.held_values():
            if step is Index and index >= self.index:
                yield ((IteratorItem, index - self.index),), item

    def referents(self) -> list[Object]:
        return [] if self.sequence is None else [self.sequence]


class DelegatedSequence(IteratorObject):
    """A list, tuple, str or bytes that a generator delegates to by `yield from`, where the interpreter keeps the sequence itself: `send` asks for its
    attributes."""

    __slots__ = ("sequence", "iterator")

    def __init__(self, sequence: Object, iterator: Object) -> None:
        super().__init__(iterator.cls)
        self.sequence = sequence
        self.iterator = iterator

    def getattr(self, vm: VM, name: str) -> Object:
        return abstract.getattr_(vm, self.sequence, name)

    def next(self, vm: VM) -> Object | None:
        return self.iterator.next(vm)

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.iterator)

    def referents(self) -> list[Object]:
        return [self.iterator]


class ReverseIterator(IteratorObject):
    """`reversed` of a list or another sequence whose items are known."""

    __slots__ = ("sequence", "index")

    def __init__(self, sequence: Object, index: int, cls: type) -> None:
        super().__init__(cls)
        self.sequence = sequence
        self.index = index

    def next(self, vm: VM) -> Object | None:
        index = self.index
        items = self.sequence.items(vm)  # type: ignore[attr-defined]
        if 0 <= index < len(items):
            vm.trail.set(self, "index", index - 1)
            return items[index]
        vm.trail.set(self, "index", -1)
        return None

    def length_hint(self, vm: VM) -> int | None:
        """listreviter_len, reversed_len: a sequence that has become shorter gives none."""
        left = self.index + 1
        return left if len(self.sequence.items(vm)) >= left else 0  # type: ignore[attr-defined]

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.sequence)
        cg.load_const(self.index)
        cg.call_const(list_reversed_at if self.cls is list_reverse_iterator else reversed_at, 2)

    def awaits(self) -> Object | None:
        return self.sequence

    def referents(self) -> list[Object]:
        return [self.sequence]


HELD_IN: dict[tuple[Any, Any], str] = {}
"""The attribute that holds all items of sequences in Python, by the functions that are their `__len__` and `__getitem__`, which read nothing else. The native
interpreter may call these once more: nothing shows it."""


class ReversedItems(IteratorObject):
    """`reversed` of an object of a class in Python. Its length is asked for when the iterator is made, and for each length hint.

    `held`: the attribute that holds the items, by HELD_IN, of a sequence from outside; None if there is none. Only then the iterator survives a graph break.
    """

    __slots__ = ("vm", "place", "sequence", "index", "held")

    def __init__(self, vm: VM, sequence: Object, index: int) -> None:
        super().__init__(reversed)
        self.vm = vm
        self.place = vm.place()
        self.sequence: Object | None = sequence
        self.index = index
        name = HELD_IN.get((vm.raw_type_lookup(sequence.cls, "__len__"), vm.raw_type_lookup(sequence.cls, "__getitem__")))
        self.held = abstract.getattr_(vm, sequence, name) if name is not None and sequence.source is not None else None

    def is_steady(self) -> bool:
        """Return whether the real sequence has the items, and the length, that the trace has seen."""
        return self.held is not None and settle(self.held).source is not None and not self.vm.effects.is_mutated(self.held)

    def next(self, vm: VM) -> Object | None:
        """Objects/enumobject.c: reversed_next: any exception that is raised ends the iteration."""
        sequence, index = self.sequence, self.index
        vm.trail.set(self, "sequence", None)
        if sequence is None or index < 0:
            return None
        try:
            item = abstract.getitem(vm, sequence, vm.const(index))
        except Raise as raised:
            if issubclass(raised.exc.cls, (IndexError, StopIteration)):
                return None
            raise
        vm.trail.set(self, "sequence", sequence)
        vm.trail.set(self, "index", index - 1)
        return item

    def length_hint(self, vm: VM) -> int | None:
        """Objects/enumobject.c: reversed_len."""
        if self.sequence is None:
            return 0
        left = self.index + 1
        return left if abstract.length(vm, self.sequence).constant(vm) >= left else 0

    def reconstruct(self, cg: Codegen) -> None:
        if self.sequence is None:
            cg.load_const(())
            cg.call_const(reversed, 1)
            return
        if not self.is_steady():
            self.vm.restart(self.place, breaks.InterruptedIterator("reversed() of an object whose length would be asked once more"))
        cg.load(self.sequence)
        cg.load_const(self.index)
        cg.call_const(reversed_at, 2)

    def referents(self) -> list[Object]:
        return [] if self.sequence is None else [self.sequence]


class ConstantIterator(IteratorObject):
    """An iterator over a constant: a range, a string, bytes, or one of these backwards. Backwards over strings and bytes, its type is `reversed`.

    `has_ended`: it has said so, after which it holds no text any more.
    """

    __slots__ = ("constants", "index", "has_ended")

    def __init__(self, constants: Any, cls: type) -> None:
        super().__init__(cls)
        self.constants = constants
        self.index = 0
        self.has_ended = False

    def next(self, vm: VM) -> Object | None:
        index = self.index
        if index < len(self.constants):
            vm.trail.set(self, "index", index + 1)
            return vm.const(self.constants[index])
        if not self.has_ended and self.cls is not range_iterator:
            vm.trail.set(self, "has_ended", True)
        return None

    def length_hint(self, vm: VM) -> int | None:
        return len(self.constants) - self.index

    def reconstruct(self, cg: Codegen) -> None:
        if self.cls is reversed:
            cg.load_const(self.constants[self.index :][::-1])
            cg.call_const(reversed, 1)
        else:
            cg.load_const(self.constants)
            cg.load_const(self.index)
            cg.load_const(self.has_ended)
            cg.call_const(constant_iterator_at, 3)


class ForeignIterator(Object):
    """An iterator that was made outside and whose state can't be read: a step of it is a break, everything else is traced."""

    __slots__ = ()

    def iter(self, vm: VM) -> Object:
        return self

    def next(self, vm: VM) -> Object | None:
        vm.unsupported(breaks.IteratorFromOutside(f"a {classes.name(self.cls)}"))


def stop_iteration_ends(vm: VM, call: Callable[[], Object]) -> Object | None:
    """The result of a call made by an iterator in C: a StopIteration that escapes from it ends the iteration."""
    try:
        return call()
    except Raise as raised:
        if issubclass(raised.exc.cls, StopIteration):
            drop_end(vm, raised.exc)
            return None
        raise


def load_slots(cg: Codegen, values: Sequence[Object | None]) -> None:
    """Emit code that puts values into a tuple, with `support.NULL` for those that are missing, as the runtime takes the state of an iterator or a generator."""
    for value in values:
        if value is None:
            cg.load_const(support.NULL)
        else:
            cg.load(value)
    cg.build_tuple(len(values))


def constant_iterator_at(constants: Any, index: int, has_ended: bool) -> Iterator[Any]:
    """Run by generated code: an iterator over a range, a string or bytes that has already given `index` items."""
    iterator: Any = iter(constants)
    if index:
        iterator.__setstate__(index)
    if has_ended:
        next(iterator, None)
    return iterator  # type: ignore[no-any-return]


def tuple_iterator_at(sequence: tuple[Any, ...], index: int) -> Iterator[Any]:
    """Run by generated code: an iterator over a tuple that has already given `index` items."""
    iterator = tuple.__iter__(sequence)
    if index:
        iterator.__setstate__(index)  # type: ignore[attr-defined]
    return iterator


def list_iterator_at(sequence: list[Any], index: int) -> Iterator[Any]:
    """Run by generated code: an iterator over a list that stands at `index`, which may be past the list's end."""
    return at_position(list.__iter__(sequence), sequence, index, index)


def list_reversed_at(sequence: list[Any], index: int) -> Iterator[Any]:
    """Run by generated code: a reversed iterator over a list; `index` is that of the next item, -1 after the last."""
    return at_position(list.__reversed__(sequence), sequence, index, index + 1)


def at_position(iterator: Iterator[Any], sequence: list[Any], index: int, length: int) -> Iterator[Any]:
    """Set the position of an iterator over a list. `__setstate__` stays inside the list, so one that is shorter than `length` (it has shrunk, or isn't filled)
    is lengthened meanwhile."""
    missing = length - list.__len__(sequence)
    if missing > 0:
        list.extend(sequence, [None] * missing)
    iterator.__setstate__(index)  # type: ignore[attr-defined]
    if missing > 0:
        list.__delitem__(sequence, slice(-missing, None))
    return iterator


def reversed_at(sequence: Any, index: int) -> Iterator[Any]:
    """Run by generated code: `reversed(sequence)`, at this position."""
    iterator = reversed(sequence)
    iterator.__setstate__(index)  # type: ignore[attr-defined]
    return iterator


def exhausted(cls: type) -> Iterator[Any]:
    """Run by generated code: an iterator over a list or tuple that has ended."""
    return iter(cls())


ITERATOR_TYPES: tuple[Any, ...] = (
    list_iterator, list_reverse_iterator, tuple_iterator, range_iterator, str_iterator, ascii_iterator, bytes_iterator, callable_iterator,
    enumerate, zip, map, filter, reversed,
    type(iter({})), type(iter({}.keys())), type(iter({}.values())), type(iter({}.items())),
    type(reversed({})), type(reversed({}.values())), type(reversed({}.items())), type(iter(set())),
    type(iter(range(1 << 70))),
)  # fmt: skip


ITERTOOLS: tuple[Any, ...] = tuple(made for made in vars(itertools).values() if isinstance(made, type) and hasattr(made, "__next__"))
FOREIGN: tuple[Any, ...] = (
    *ITERTOOLS, bytearray_iterator, array_iterator, type(iter(set())), type(iter(range(1 << 70))),
    type(iter(collections.deque())), type(reversed(collections.deque())),
)  # fmt: skip


wraps(*[cls for cls in FOREIGN if cls not in ITERATOR_FIELDS], shared=True)(ForeignIterator)
