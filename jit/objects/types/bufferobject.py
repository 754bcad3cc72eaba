"""bytearray and array.array that the trace makes: their contents are known, and methods run on a real one with the same contents."""

from __future__ import annotations

import array
from collections.abc import Iterator
from typing import Any

from framejit.objects.core.object import VM, Codegen, Object, unhashable
from framejit.objects.types.iterobject import IteratorObject, array_iterator, bytearray_iterator

BUFFERS: tuple[type, ...] = (bytearray, array.array)


class BufferObject(Object):
    """A bytearray or array that the trace has made. `contents`: its bytes. `kind`: the type code of an array."""

    __slots__ = ("contents", "kind")

    def __init__(self, real: Any) -> None:
        super().__init__(type(real))
        self.contents = bytes(real)
        self.kind = None if self.cls is bytearray else real.typecode

    def real(self) -> Any:
        """A real one with the same contents."""
        return remade(self.contents, self.kind)

    def as_real(self, vm: VM) -> Any:
        return self.real()

    def follow(self, vm: VM, real: Any) -> None:
        """Take over the contents of a real one on which a method has run."""
        contents = bytes(real)
        if contents != self.contents:
            vm.trail.set(self, "contents", contents)

    def hash_key(self, vm: VM) -> Any:
        unhashable(vm, self.type_name)

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.contents)
        cg.load_const(self.kind)
        cg.call_const(remade, 2)


class BufferIterator(IteratorObject):
    """An iterator over a bytearray or an array: it sees changes made while it runs; once exhausted, it stays so."""

    __slots__ = ("owner", "index")

    def __init__(self, owner: BufferObject) -> None:
        super().__init__(bytearray_iterator if owner.cls is bytearray else array_iterator)
        self.owner: BufferObject | None = owner
        self.index = 0

    def next(self, vm: VM) -> Object | None:
        if self.owner is None:
            return None
        real = self.owner.real()
        if self.index >= len(real):
            vm.trail.set(self, "owner", None)
            return None
        vm.trail.set(self, "index", self.index + 1)
        return vm.const(real[self.index - 1])

    def reconstruct(self, cg: Codegen) -> None:
        if self.owner is None:
            cg.load_const(self.cls)
            cg.call_const(exhausted, 1)
            return
        cg.load(self.owner)
        cg.load_const(self.index)
        cg.call_const(iterator_at, 2)

    def awaits(self) -> Object | None:
        return self.owner

    def referents(self) -> list[Object]:
        return [] if self.owner is None else [self.owner]


def remade(contents: bytes, kind: str | None) -> Any:
    """A bytearray or array with these bytes. Generated code runs this too."""
    if kind is None:
        return bytearray(contents)
    made: Any = array.array(kind)
    made.frombytes(contents)
    return array.array(kind, made)  # which has no room for more items, as after array.array(kind, items)


def iterator_at(owner: Any, index: int) -> Iterator[Any]:
    """Run by generated code: an iterator that has given `index` items."""
    iterator = iter(owner)
    iterator.__setstate__(index)
    return iterator


def exhausted(cls: type) -> Iterator[Any]:
    """Run by generated code: an iterator that has ended."""
    iterator: Iterator[Any] = iter(bytearray() if cls is bytearray_iterator else array.array("b"))
    next(iterator, None)
    return iterator
