"""itertools in plain Python, after the equivalents in its documentation.

What a C iterator does when it is made (it checks its arguments, asks for iterators, takes the items that it will need more than once) comes
before a generator that is as lazy as it is.
"""

from __future__ import annotations

import operator
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

MISSING = object()
LARGEST = sys.maxsize


def chain(*iterables: Iterable[Any]) -> Iterator[Any]:
    """itertools.chain."""
    for iterable in iterables:
        yield from iterable


def chain_from_iterable(cls: type, iterables: Iterable[Iterable[Any]]) -> Iterator[Any]:
    """itertools.chain.from_iterable."""
    return chain_items(iter(iterables))


def chain_items(iterables: Iterator[Iterable[Any]]) -> Iterator[Any]:
    for iterable in iterables:
        yield from iterable


def as_size(value: Any) -> int:
    """PyNumber_AsSsize_t with OverflowError."""
    index = operator.index(value)
    if not -LARGEST - 1 <= index <= LARGEST:
        raise OverflowError("Python int too large to convert to C ssize_t")
    return index


def is_number(value: Any) -> bool:
    """PyNumber_Check."""
    cls = type(value)
    return hasattr(cls, "__index__") or hasattr(cls, "__int__") or hasattr(cls, "__float__") or isinstance(value, complex)


def count(start: Any = 0, step: Any = 1) -> Iterator[Any]:
    """itertools.count."""
    if not is_number(start) or not is_number(step):
        raise TypeError("a number is required")
    if isinstance(start, int) and isinstance(step, int) and step == 1 and start <= LARGEST:
        start, step = operator.index(start), 1  # count_new's fast mode counts in C
    return count_items(start, step)


def count_items(value: Any, step: Any) -> Iterator[Any]:
    while True:
        following = value + step
        yield value
        value = following


def repeat(object: Any, times: Any = MISSING) -> Iterator[Any]:
    """itertools.repeat."""
    return repeat_items(object, None if times is MISSING else as_size(times))


def repeat_items(object: Any, times: int | None) -> Iterator[Any]:
    if times is None:
        while True:
            yield object
    for _ in range(times):
        yield object


def cycle(iterable: Iterable[Any]) -> Iterator[Any]:
    """itertools.cycle."""
    return cycle_items(iter(iterable))


def cycle_items(iterator: Iterator[Any]) -> Iterator[Any]:
    saved = []
    for item in iterator:
        yield item
        saved.append(item)
    while saved:
        for item in saved:
            yield item


def size(value: Any) -> int:
    """An argument of islice: -1 stands for each exception."""
    try:
        return as_size(value)
    except BaseException:
        return -1


def islice(iterable: Iterable[Any], first: Any, second: Any = MISSING, third: Any = None) -> Iterator[Any]:
    """itertools.islice (Modules/itertoolsmodule.c: islice_new): `islice(iterable, stop)` or `islice(iterable, start, stop, step)`."""
    start, stop = (None, first) if second is MISSING else (first, second)
    begin = 0 if start is None else size(start)
    end = None if stop is None else size(stop)
    if end == -1:
        raise ValueError("Stop argument for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    if begin < 0 or end is not None and end < 0:
        what = "Stop argument" if second is MISSING else "Indices"
        raise ValueError(f"{what} for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    stride = 1 if third is None else size(third)
    if stride < 1:
        raise ValueError("Step for islice() must be a positive integer or None.")
    return islice_items(iter(iterable), begin, end, stride)


def islice_items(iterator: Iterator[Any], first: int, last: int | None, stride: int) -> Iterator[Any]:
    """The items of an islice (Modules/itertoolsmodule.c: islice_next)."""
    position = 0
    wanted = first
    while last is None or wanted < last:
        while position < wanted:
            if next(iterator, MISSING) is MISSING:
                return
            position += 1
        item = next(iterator, MISSING)
        if item is MISSING:
            return
        position += 1
        yield item
        wanted += stride
    if last is not None:
        while position < last:
            if next(iterator, MISSING) is MISSING:
                return
            position += 1


def starmap(function: Callable[..., Any], iterable: Iterable[Iterable[Any]]) -> Iterator[Any]:
    """itertools.starmap."""
    return starmap_items(function, iter(iterable))


def starmap_items(function: Callable[..., Any], iterator: Iterator[Iterable[Any]]) -> Iterator[Any]:
    for args in iterator:
        yield function(*tuple(args))


def takewhile(predicate: Callable[[Any], Any], iterable: Iterable[Any]) -> Iterator[Any]:
    """itertools.takewhile."""
    return takewhile_items(predicate, iter(iterable))


def takewhile_items(predicate: Callable[[Any], Any], iterator: Iterator[Any]) -> Iterator[Any]:
    for item in iterator:
        if not predicate(item):
            return
        yield item


def dropwhile(predicate: Callable[[Any], Any], iterable: Iterable[Any]) -> Iterator[Any]:
    """itertools.dropwhile."""
    return dropwhile_items(predicate, iter(iterable))


def dropwhile_items(predicate: Callable[[Any], Any], iterator: Iterator[Any]) -> Iterator[Any]:
    for item in iterator:
        if not predicate(item):
            yield item
            break
    for item in iterator:
        yield item


def filterfalse(predicate: Callable[[Any], Any] | None, iterable: Iterable[Any]) -> Iterator[Any]:
    """itertools.filterfalse."""
    return filterfalse_items(predicate, iter(iterable))


def filterfalse_items(predicate: Callable[[Any], Any] | None, iterator: Iterator[Any]) -> Iterator[Any]:
    for item in iterator:
        if not (item if predicate is None or predicate is bool else predicate(item)):
            yield item


def compress(data: Iterable[Any], selectors: Iterable[Any]) -> Iterator[Any]:
    """itertools.compress."""
    return compress_items(iter(data), iter(selectors))


def compress_items(data: Iterator[Any], selectors: Iterator[Any]) -> Iterator[Any]:
    for item, selected in zip(data, selectors):
        if selected:
            yield item


def pairwise(iterable: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """itertools.pairwise."""
    return pairwise_items(iter(iterable))


def pairwise_items(iterator: Iterator[Any]) -> Iterator[tuple[Any, Any]]:
    last = next(iterator, MISSING)
    if last is MISSING:
        return
    for item in iterator:
        yield last, item
        last = item


def batched(iterable: Iterable[Any], n: Any) -> Iterator[tuple[Any, ...]]:
    """itertools.batched."""
    length = as_size(n)
    if length < 1:
        raise ValueError("n must be at least one")
    return batched_items(iter(iterable), length)


def batched_items(iterator: Iterator[Any], n: int) -> Iterator[tuple[Any, ...]]:
    while batch := tuple(islice(iterator, n)):
        yield batch


def accumulate(iterable: Iterable[Any], func: Callable[[Any, Any], Any] | None = None, *, initial: Any = None) -> Iterator[Any]:
    """itertools.accumulate."""
    return accumulate_items(iter(iterable), func, initial)


def accumulate_items(iterator: Iterator[Any], func: Callable[[Any, Any], Any] | None, initial: Any) -> Iterator[Any]:
    total = initial
    if initial is None:
        total = next(iterator, MISSING)
        if total is MISSING:
            return
    yield total
    for item in iterator:
        total = total + item if func is None else func(total, item)
        yield total


def zip_longest(*iterables: Iterable[Any], fillvalue: Any = None) -> Iterator[tuple[Any, ...]]:
    """itertools.zip_longest."""
    return zip_longest_items([iter(iterable) for iterable in iterables], fillvalue)


def zip_longest_items(iterators: list[Iterator[Any] | None], fillvalue: Any) -> Iterator[tuple[Any, ...]]:
    active = len(iterators)
    while active:
        values = []
        for position, iterator in enumerate(iterators):
            value = fillvalue
            if iterator is not None:
                value = next(iterator, MISSING)
                if value is MISSING:
                    active -= 1
                    if not active:
                        return
                    iterators[position] = None
                    value = fillvalue
            values.append(value)
        yield tuple(values)


def product(*iterables: Iterable[Any], repeat: Any = 1) -> Iterator[tuple[Any, ...]]:
    """itertools.product."""
    times = as_size(repeat)
    if times < 0:
        raise ValueError("repeat argument cannot be negative")
    if times == 0:
        return product_items([])
    return product_items([tuple(iterable) for iterable in iterables] * times)


def product_items(pools: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    for pool in pools:
        if not pool:
            return
    indices = [0] * len(pools)
    while True:
        yield tuple([pool[index] for pool, index in zip(pools, indices)])
        position = len(pools) - 1
        while position >= 0 and indices[position] == len(pools[position]) - 1:
            indices[position] = 0
            position -= 1
        if position < 0:
            return
        indices[position] += 1


def permutations(iterable: Iterable[Any], r: Any = None) -> Iterator[tuple[Any, ...]]:
    """itertools.permutations."""
    pool = tuple(iterable)
    if r is None:
        return permutations_items(pool, len(pool))
    if not isinstance(r, int):
        raise TypeError("Expected int as r")
    length = as_size(r)
    if length < 0:
        raise ValueError("r must be non-negative")
    return permutations_items(pool, length)


def permutations_items(pool: tuple[Any, ...], length: int) -> Iterator[tuple[Any, ...]]:
    size = len(pool)
    if length > size:
        return
    indices = list(range(size))
    cycles = list(range(size, size - length, -1))
    yield tuple([pool[index] for index in indices[:length]])
    while True:
        position = length - 1
        while position >= 0:
            cycles[position] -= 1
            if cycles[position]:
                break
            indices[position:] = indices[position + 1 :] + indices[position : position + 1]
            cycles[position] = size - position
            position -= 1
        if position < 0:
            return
        other = size - cycles[position]
        indices[position], indices[other] = indices[other], indices[position]
        yield tuple([pool[index] for index in indices[:length]])


def combinations(iterable: Iterable[Any], r: Any) -> Iterator[tuple[Any, ...]]:
    """itertools.combinations."""
    length = as_size(r)
    pool = tuple(iterable)
    if length < 0:
        raise ValueError("r must be non-negative")
    return combinations_items(pool, length)


def combinations_items(pool: tuple[Any, ...], r: int) -> Iterator[tuple[Any, ...]]:
    size = len(pool)
    if r > size:
        return
    indices = list(range(r))
    yield tuple([pool[i] for i in indices])
    while True:
        position = r - 1
        while position >= 0 and indices[position] == position + size - r:
            position -= 1
        if position < 0:
            return
        indices[position] += 1
        for later in range(position + 1, r):
            indices[later] = indices[later - 1] + 1
        yield tuple([pool[i] for i in indices])


def combinations_with_replacement(iterable: Iterable[Any], r: Any) -> Iterator[tuple[Any, ...]]:
    """itertools.combinations_with_replacement."""
    length = as_size(r)
    pool = tuple(iterable)
    if length < 0:
        raise ValueError("r must be non-negative")
    return combinations_with_replacement_items(pool, length)


def combinations_with_replacement_items(pool: tuple[Any, ...], r: int) -> Iterator[tuple[Any, ...]]:
    size = len(pool)
    if not size and r:
        return
    indices = [0] * r
    yield tuple([pool[i] for i in indices])
    while True:
        position = r - 1
        while position >= 0 and indices[position] == size - 1:
            position -= 1
        if position < 0:
            return
        indices[position:] = [indices[position] + 1] * (r - position)
        yield tuple([pool[i] for i in indices])


class Groups:
    """The state that groupby shares with its groups."""

    __slots__ = ("iterator", "key", "item", "item_key", "group")

    def __init__(self, iterator: Iterator[Any], key: Callable[[Any], Any] | None) -> None:
        self.iterator = iterator
        self.key = key
        self.item: Any = MISSING
        self.item_key: Any = MISSING
        self.group: Any = None

    def advance(self) -> bool:
        """Take the next item; False at the end."""
        item = next(self.iterator, MISSING)
        self.item = item
        if item is MISSING:
            return False
        self.item_key = item if self.key is None else self.key(item)
        return True

    def members(self, key: Any, token: object) -> Iterator[Any]:
        """One group: it ends when the next one has been asked for."""
        while self.group is token and self.item is not MISSING and self.item_key == key:
            yield self.item
            if self.group is token:
                self.advance()


def groupby(iterable: Iterable[Any], key: Callable[[Any], Any] | None = None) -> Iterator[tuple[Any, Iterator[Any]]]:
    """itertools.groupby."""
    return groupby_items(Groups(iter(iterable), key))


def groupby_items(state: Groups) -> Iterator[tuple[Any, Iterator[Any]]]:
    if not state.advance():
        return
    while state.item is not MISSING:
        current = state.item_key
        token: list[Any] = []
        state.group = token
        yield current, state.members(current, token)
        state.group = None
        while state.item is not MISSING and state.item_key == current:
            state.advance()


def tee(iterable: Iterable[Any], n: Any = 2) -> tuple[Iterator[Any], ...]:
    """itertools.tee."""
    times = as_size(n)
    if times < 0:
        raise ValueError("n must be >= 0")
    if times == 0:
        return ()
    iterator = iter(iterable)
    copy = getattr(iterator, "__copy__", None)
    if copy is not None:
        return (iterator, *[copy() for _ in range(times - 1)])
    shared = Shared(iterator, times)
    return tuple([tee_items(shared, queue) for queue in shared.queues])


class Shared:
    """What the iterators of a tee share. `running`: whether one of them is taking an item, for which it may run anything."""

    __slots__ = ("iterator", "queues", "running")

    def __init__(self, iterator: Iterator[Any], times: int) -> None:
        self.iterator = iterator
        self.queues: list[deque[Any]] = [deque() for _ in range(times)]
        self.running = False

    def take(self) -> bool:
        """Take an item for all of them; False at the end (teedataobject_getitem)."""
        if self.running:
            raise RuntimeError("cannot re-enter the tee iterator")
        self.running = True
        try:
            item = next(self.iterator, MISSING)
        finally:
            self.running = False
        if item is MISSING:
            return False
        for queue in self.queues:
            queue.append(item)
        return True


def tee_items(shared: Shared, mine: deque[Any]) -> Iterator[Any]:
    """One of the iterators of a tee."""
    while mine or shared.take():
        yield mine.popleft()
