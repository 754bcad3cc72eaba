"""The builtin iterators: enumerate, zip, map, filter, reversed, and the protocol methods that all iterators share."""

from __future__ import annotations

import operator
from typing import Any

from framejit import breaks
from framejit.guards.source import MISSING
from framejit.objects.core import abstract, operators
from framejit.objects.core.object import VM, Object, call_special, settle
from framejit.objects.core.registry import models
from framejit.objects.types.constobject import NONE, ConstObject
from framejit.objects.types.dequeobject import deque_iterator, deque_reverse_iterator
from framejit.objects.types.dictobject import ITERATOR_TYPES as DICT_ITERATOR_TYPES
from framejit.objects.types.iteratorfields import (
    MAP_HAS_STRICT,
    OF_THEIR_OWN,
    EnumerateIterator,
    FieldIterator,
    FilterIterator,
    MapIterator,
    ZipIterator,
)
from framejit.objects.types.iterobject import (
    ITERATOR_TYPES,
    ITERTOOLS,
    ConstantIterator,
    IteratorObject,
    ReversedItems,
    ReverseIterator,
    SequenceIterator,
    array_iterator,
    ascii_iterator,
    bytearray_iterator,
    bytes_iterator,
    constant_iterator_at,
    list_iterator,
    range_iterator,
    str_iterator,
    tuple_iterator,
)
from framejit.objects.types.rangeobject import RangeObject, short_range
from framejit.objects.types.tupleobject import TupleObject
from framejit.plain.support import NULL, made
from framejit.program import classes


@models(enumerate)
def enumerate_(vm: VM, iterable: Object, start: Object | None = None) -> Object:
    first = 0 if start is None else operators.index(vm, start)
    return EnumerateIterator(enumerate, {"it": abstract.iter_(vm, iterable), "count": vm.const(first)})


def strictness(vm: VM, strict: Object | None) -> Object:
    """The field `strict` of a zip or map that is made with this argument."""
    return vm.const(int(strict is not None and abstract.truth(vm, strict)))


@models(zip)
def zip_(vm: VM, *iterables: Object, strict: Object | None = None) -> Object:
    checked = strictness(vm, strict)
    return ZipIterator(zip, {"ittuple": TupleObject([abstract.iter_(vm, iterable) for iterable in iterables]), "strict": checked})


def mapped(vm: VM, function: Object, iterables: tuple[Object, ...], **more: Object) -> Object:
    """A map whose other fields are `more`."""
    if not iterables:
        vm.raise_(TypeError, "map() must have at least two arguments.")
    return MapIterator(map, {"func": function, "iters": TupleObject([abstract.iter_(vm, iterable) for iterable in iterables]), **more})


def map_(vm: VM, function: Object, *iterables: Object) -> Object:
    return mapped(vm, function, iterables)


def map_with_strict(vm: VM, function: Object, *iterables: Object, strict: Object | None = None) -> Object:
    return mapped(vm, function, iterables, strict=strictness(vm, strict))


models(map)(map_with_strict if MAP_HAS_STRICT else map_)


@models(filter)
def filter_(vm: VM, function: Object, iterable: Object) -> Object:
    return FilterIterator(filter, {"func": function, "it": abstract.iter_(vm, iterable)})


@models(made)
def made_(vm: VM, cls: Object, **fields: Object) -> Object:
    """An iterator made by a stand-in. A field may be marked as holding nothing."""
    real = cls.constant(vm)
    return OF_THEIR_OWN.get(real, FieldIterator)(real, {name: None if settle(value).value is NULL else value for name, value in fields.items()})


@models(reversed)
def reversed_(vm: VM, sequence: Object) -> Object:
    """`__reversed__`, or the sequence protocol from the end (Objects/enumobject.c: reversed_new_impl)."""
    sequence = vm.observe(sequence)
    if isinstance(sequence, RangeObject):
        return ConstantIterator(short_range(vm, sequence.constant(vm)[::-1]), range_iterator)
    if sequence.cls is tuple and isinstance(sequence, TupleObject):
        return ReverseIterator(sequence, len(sequence.items(vm)) - 1, reversed)
    if sequence.cls in (str, bytes) and isinstance(sequence, ConstObject):
        return ConstantIterator(sequence.constant(vm)[::-1], reversed)
    is_barred = vm.raw_type_lookup(sequence.cls, "__reversed__") is None
    found = None if is_barred else call_special(vm, sequence, "__reversed__")
    if found is not None:
        return found
    is_sequence = not is_barred and vm.raw_type_lookup(sequence.cls, "__getitem__") is not MISSING and not issubclass(sequence.cls, dict)
    if not is_sequence:
        vm.raise_(TypeError, f"'{sequence.type_name}' object is not reversible")
    return ReversedItems(vm, sequence, abstract.length(vm, sequence).constant(vm) - 1)


def string_iter(vm: VM, text: Object) -> Object:
    """`iter` of a constant string or bytes."""
    value = text.constant(vm)
    return ConstantIterator(value, bytes_iterator if issubclass(text.cls, bytes) else ascii_iterator if value.isascii() else str_iterator)


models(str.__iter__, bytes.__iter__)(string_iter)


@models(range.__iter__)
def range_iter(vm: VM, self: Object) -> Object:
    return ConstantIterator(short_range(vm, self.constant(vm)), range_iterator)


@models(range.__reversed__)
def range_reversed(vm: VM, self: Object) -> Object:
    return ConstantIterator(short_range(vm, self.constant(vm)[::-1]), range_iterator)


def step(vm: VM, self: Object) -> Object:
    """`iterator.__next__()`."""
    found = vm.next_with_end(self)
    if found is None:
        vm.raise_(StopIteration)
    return found


def itself(vm: VM, self: Object) -> Object:
    """`iterator.__iter__()`."""
    return self


def length_hint(vm: VM, self: Object) -> Object:
    """`iterator.__length_hint__()`."""
    if not isinstance(self, IteratorObject):
        vm.unsupported(breaks.UnsupportedCall(f"__length_hint__ of a {classes.name(self.cls)}"))
    hint = self.length_hint(vm)
    return NONE if hint is None else vm.const(hint)


for _cls in {*ITERATOR_TYPES, *ITERTOOLS, *DICT_ITERATOR_TYPES.values(), deque_iterator, deque_reverse_iterator, bytearray_iterator, array_iterator}:
    models(_cls.__next__)(step)
    models(_cls.__iter__)(itself)
    if hasattr(_cls, "__length_hint__"):
        models(_cls.__length_hint__)(length_hint)


WITH_POSITION = (list_iterator, tuple_iterator, str_iterator, ascii_iterator, bytes_iterator, range_iterator)
"""Iterators that are copied with their position."""


def real_iterator(vm: VM, iterator: Object) -> tuple[Any, Any]:
    """A real iterator at the same position, over a sequence of the same length, and that sequence. Breaks if it isn't one of WITH_POSITION."""
    if isinstance(iterator, ConstantIterator) and iterator.cls is not reversed:
        return constant_iterator_at(iterator.constants, iterator.index, iterator.has_ended), iterator.constants
    if not isinstance(iterator, SequenceIterator):
        vm.unsupported(breaks.UnsupportedCall(f"the state of a {classes.name(iterator.cls)}"))
    cls = list if iterator.cls is list_iterator else tuple
    if iterator.sequence is None:
        made: Any = iter(cls())
        next(made, None)
        return made, ()
    sequence = cls([None] * len(iterator.sequence.items(vm)))  # type: ignore[attr-defined]
    made = iter(sequence)
    made.__setstate__(iterator.index)
    return made, sequence


def reduce(vm: VM, self: Object) -> Object:
    """`iterator.__reduce__()`: what makes it again, with the sequence that it runs over."""
    real, sequence = real_iterator(vm, self)
    function, arguments, *state = real.__reduce__()
    given: list[Object] = [vm.from_real(argument) for argument in arguments]
    if isinstance(self, SequenceIterator) and self.sequence is not None and arguments[0] is sequence:
        given = [self.sequence]
    return TupleObject([vm.const(function), TupleObject(given), *map(vm.from_real, state)])


def set_state(vm: VM, self: Object, state: Object) -> Object:
    """`iterator.__setstate__(position)`."""
    real, sequence = real_iterator(vm, self)
    value = vm.observe(state).as_real(vm)
    try:
        real.__setstate__(value)
    except Exception as error:
        vm.raise_(type(error), *error.args)
    if not (self.sequence is None if isinstance(self, SequenceIterator) else self.has_ended):  # type: ignore[attr-defined]
        vm.trail.set(self, "index", len(sequence) - operator.length_hint(real))
    return NONE


for _cls in WITH_POSITION:
    models(_cls.__reduce__)(reduce)
    models(_cls.__setstate__)(set_state)
