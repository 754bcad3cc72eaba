"""The common operations of lists, tuples and deques: indexing, slicing, searching, ordering and sorting."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from typing import Any, Protocol

from framejit import breaks
from framejit.objects.core import abstract, operators, wording
from framejit.objects.core.addresses import tell_tables_apart
from framejit.objects.core.object import VM, Object, fold
from framejit.objects.types.constobject import NOT_IMPLEMENTED, would_be_knowable
from framejit.objects.types.sliceobject import SliceObject

MAX_REPEAT = 1 << 16
MOST_ITEMS = sys.maxsize


def real_slice(vm: VM, key: SliceObject) -> slice:
    """The slice with its parts as real ints. The step is asked for first (Objects/sliceobject.c: PySlice_Unpack)."""

    def real(part: Object) -> int | None:
        part = vm.observe(part)
        return None if part.cls is type(None) else operators.index(vm, part, lambda: wording.NO_SLICE_BOUND)

    start, stop, step = key.parts()
    real_step = real(step)
    if real_step == 0:
        vm.raise_(ValueError, "slice step cannot be zero")
    return slice(real(start), real(stop), real_step)


class Sequence(Protocol):
    """A list, tuple or deque of the trace. Turning an object into an index may change it, so that its items are asked for afterwards, as in CPython."""

    def items(self, vm: VM) -> list[Object]: ...


def checked_index(vm: VM, key: Object, sequence: Sequence, kind: str, verb: str = "") -> int:
    """An index into a sequence, made non-negative; IndexError if it is out of range."""
    index = operators.index(vm, key, lambda: f"{kind} indices must be integers or slices, not {vm.observe(key).type_name}")
    abstract.ssize(vm, index, IndexError)
    size = len(sequence.items(vm))
    if not -size <= index < size:
        vm.raise_(IndexError, f"{kind} {verb}index out of range")
    return index % size


def find(vm: VM, sequence: Sequence, item: Object, start: int = 0, stop: int | None = None) -> int:
    """The first index of an equal item, or -1. A list may change while its items are compared, as in CPython."""
    index = start
    while index < len(items := sequence.items(vm)) and (stop is None or index < stop):
        if operators.equal(vm, items[index], item):
            return index
        index += 1
    return -1


def bounds(vm: VM, sequence: Sequence, start: Object | None, stop: Object | None) -> tuple[int, int]:
    """The optional limits of `index`, as _PyEval_SliceIndexNotNone clips them."""
    given = [
        None if part is None else operators.index(vm, part, lambda: "slice indices must be integers or have an __index__ method") for part in (start, stop)
    ]
    size = len(sequence.items(vm))
    first, last = [default if value is None else max(0, value + size) if value < 0 else value for value, default in zip(given, (0, MOST_ITEMS))]
    return first, last


def compare_items(vm: VM, symbol: str, left: Sequence, right: Sequence) -> Object:
    """Objects/listobject.c: list_richcompare; comparing the items may change the lists."""
    if symbol in ("==", "!=") and len(left.items(vm)) != len(right.items(vm)):
        return vm.const(symbol == "!=")
    index = 0
    while index < min(len(left.items(vm)), len(right.items(vm))) and operators.equal(vm, left.items(vm)[index], right.items(vm)[index]):
        index += 1
    mine, theirs = left.items(vm), right.items(vm)
    if index >= min(len(mine), len(theirs)):
        return vm.const(SIZES[symbol](len(mine), len(theirs)))
    return vm.const(symbol == "!=") if symbol in ("==", "!=") else operators.compare(vm, symbol, mine[index], theirs[index])


SIZES: dict[str, Callable[[int, int], bool]] = {symbol: real for symbol, (_, _, real) in operators.COMPARE.items()}
"""The comparison of two sequences, one of which is a prefix of the other: by their lengths."""


def comparison(symbol: str, base: type) -> Callable[..., Object]:
    """The model of one rich comparison slot of a sequence type."""

    def model(vm: VM, self: Object, other: Object) -> Object:
        other = vm.observe(other)
        if not issubclass(other.cls, base):
            return NOT_IMPLEMENTED
        return compare_items(vm, symbol, self, other)  # type: ignore[arg-type]

    return model


COMPARISONS = {"__lt__": "<", "__le__": "<=", "__eq__": "==", "__ne__": "!=", "__gt__": ">", "__ge__": ">="}


def compare_sets(vm: VM, symbol: str, left: Collection[Any], right: Collection[Any]) -> Object:
    """The comparison of sets, frozensets and views of keys and items, given their hash keys."""
    a, b = dict.fromkeys(left), dict.fromkeys(right)
    tell_tables_apart(vm, a, b)
    below, above = all(key in b for key in a), all(key in a for key in b)
    same = below and above
    return vm.const({"==": same, "!=": not same, "<=": below, ">=": above, "<": below and not above, ">": above and not below}[symbol])


def repeat(vm: VM, sequence: Sequence, times: Object) -> list[Object]:
    """The items of `sequence * times`. Raises the traced TypeError if times isn't an integer: sequences have no other slot to try."""
    count = abstract.ssize(vm, operators.index(vm, times))
    items = sequence.items(vm)
    if count > 0 and len(items) * count > MAX_REPEAT:
        vm.unsupported(breaks.UnsupportedOperation(f"a sequence of {len(items) * count} items"))
    return items * count


def same_kind(vm: VM, other: Object, base: type) -> Object:
    """The right operand of a sequence's `+`, which must be of this type too. Raises the traced TypeError, as the C slot does."""
    other = vm.observe(other)
    if not issubclass(other.cls, base):
        vm.raise_(TypeError, f'can only concatenate {base.__name__} (not "{other.type_name}") to {base.__name__}')
    return other


class Ordered:
    """A sort key whose `<` is the traced program's; list.sort uses nothing else."""

    __slots__ = ("vm", "key")

    def __init__(self, vm: VM, key: Object) -> None:
        self.vm = vm
        self.key = key

    def __lt__(self, other: Ordered) -> bool:
        return abstract.truth(self.vm, operators.compare(self.vm, "<", self.key, other.key))


def sort(vm: VM, items: list[Object], key: Object | None, reverse: Object | None) -> list[Object]:
    """A sorted copy; stable, with the comparisons that CPython makes."""
    order = list(range(len(items)))
    sort_order(vm, items, order, key, reverse)
    return [items[i] for i in order]


def is_reversed(vm: VM, reverse: Object) -> bool:
    """The truth of the argument `reverse`. Which classes it may have differs between versions of CPython, so a real list is asked unless it is a bool."""
    if reverse.cls is not bool:
        fold(vm, [].sort, reverse=reverse.constant(vm))
    return abstract.truth(vm, reverse)


def sort_order(vm: VM, items: list[Object], order: list[int], key: Object | None, reverse: Object | None) -> None:
    """Permute `order`, the numbers of the items, as sorting permutes the items; partly if a comparison raises."""
    backwards = reverse is not None and is_reversed(vm, vm.observe(reverse))
    function = None if key is None else vm.observe(key)
    keys = [vm.observe(item) for item in items]
    if function is not None and function.cls is not type(None):
        keys = [vm.observe(function.call(vm, [item], {})) for item in keys]
    if all(map(would_be_knowable, keys)):
        real = [each.constant(vm) for each in keys]
        try:
            order.sort(key=real.__getitem__, reverse=backwards)
        except TypeError as error:
            vm.raise_(TypeError, *error.args)
    else:
        ordered = [Ordered(vm, each) for each in keys]
        order.sort(key=ordered.__getitem__, reverse=backwards)
