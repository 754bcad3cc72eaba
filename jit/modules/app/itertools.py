"""itertools in plain Python: generators that are as lazy as the C iterators, after the equivalents in its documentation."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

MISSING = object()


def chain(*iterables: Iterable[Any]) -> Iterator[Any]:
    """itertools.chain."""
    for iterable in iterables:
        yield from iterable


def chain_from_iterable(cls: type, iterables: Iterable[Iterable[Any]]) -> Iterator[Any]:
    """itertools.chain.from_iterable."""
    for iterable in iterables:
        yield from iterable


def count(start: Any = 0, step: Any = 1) -> Iterator[Any]:
    """itertools.count."""
    value = start
    while True:
        yield value
        value = value + step


def repeat(object: Any, times: Any = MISSING) -> Iterator[Any]:
    """itertools.repeat."""
    if times is MISSING:
        while True:
            yield object
    for _ in range(times):
        yield object


def cycle(iterable: Iterable[Any]) -> Iterator[Any]:
    """itertools.cycle."""
    saved = []
    for item in iterable:
        yield item
        saved.append(item)
    while saved:
        for item in saved:
            yield item


def limit(value: Any, name: str) -> int:
    """An argument of islice that must be a non-negative integer."""
    index = operator.index(value)
    if index < 0:
        raise ValueError(f"{name} for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    return index


def islice(iterable: Iterable[Any], *args: Any) -> Iterator[Any]:
    """itertools.islice: the arguments are checked at once, the items taken later."""
    if len(args) == 1:
        start, stop, step = None, args[0], None
    elif len(args) == 2:
        start, stop, step = args[0], args[1], None
    else:
        start, stop, step = args
    first = 0 if start is None else limit(start, "Indices")
    last = None if stop is None else limit(stop, "Stop argument" if len(args) == 1 else "Indices")
    stride = 1 if step is None else operator.index(step)
    if stride < 1:
        raise ValueError("Step for islice() must be a positive integer or None.")
    return islice_items(iter(iterable), first, last, stride)


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
    for args in iterable:
        yield function(*args)


def takewhile(predicate: Callable[[Any], Any], iterable: Iterable[Any]) -> Iterator[Any]:
    """itertools.takewhile."""
    for item in iterable:
        if not predicate(item):
            return
        yield item


def dropwhile(predicate: Callable[[Any], Any], iterable: Iterable[Any]) -> Iterator[Any]:
    """itertools.dropwhile."""
    iterator = iter(iterable)
    for item in iterator:
        if not predicate(item):
            yield item
            break
    for item in iterator:
        yield item


def filterfalse(predicate: Callable[[Any], Any] | None, iterable: Iterable[Any]) -> Iterator[Any]:
    """itertools.filterfalse."""
    for item in iterable:
        if not (item if predicate is None else predicate(item)):
            yield item


def compress(data: Iterable[Any], selectors: Iterable[Any]) -> Iterator[Any]:
    """itertools.compress."""
    for item, selected in zip(data, selectors):
        if selected:
            yield item


def pairwise(iterable: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """itertools.pairwise."""
    iterator = iter(iterable)
    last = next(iterator, MISSING)
    if last is MISSING:
        return
    for item in iterator:
        yield last, item
        last = item


def batched(iterable: Iterable[Any], n: int) -> Iterator[tuple[Any, ...]]:
    """itertools.batched."""
    if n < 1:
        raise ValueError("n must be at least one")
    iterator = iter(iterable)
    while batch := tuple(islice(iterator, n)):
        yield batch


def accumulate(iterable: Iterable[Any], func: Callable[[Any, Any], Any] | None = None, *, initial: Any = None) -> Iterator[Any]:
    """itertools.accumulate."""
    iterator = iter(iterable)
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
    iterators: list[Iterator[Any] | None] = [iter(iterable) for iterable in iterables]
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


def product(*iterables: Iterable[Any], repeat: int = 1) -> Iterator[tuple[Any, ...]]:
    """itertools.product; the iterables are consumed when the first item is asked for."""
    pools = [tuple(iterable) for iterable in iterables] * repeat
    results: list[tuple[Any, ...]] = [()]
    for pool in pools:
        results = [(*result, item) for result in results for item in pool]
    yield from results


def permutations(iterable: Iterable[Any], r: int | None = None) -> Iterator[tuple[Any, ...]]:
    """itertools.permutations."""
    pool = tuple(iterable)
    size = len(pool)
    length = size if r is None else r
    for indices in product(range(size), repeat=length):
        if len(set(indices)) == length:
            yield tuple([pool[i] for i in indices])


def combinations(iterable: Iterable[Any], r: int) -> Iterator[tuple[Any, ...]]:
    """itertools.combinations."""
    pool = tuple(iterable)
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


def combinations_with_replacement(iterable: Iterable[Any], r: int) -> Iterator[tuple[Any, ...]]:
    """itertools.combinations_with_replacement."""
    pool = tuple(iterable)
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
    state = Groups(iter(iterable), key)
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


def tee(iterable: Iterable[Any], n: int = 2) -> tuple[Iterator[Any], ...]:
    """itertools.tee."""
    iterator = iter(iterable)
    queues: list[deque[Any]] = [deque() for _ in range(n)]
    return tuple([tee_items(iterator, queue, queues) for queue in queues])


def tee_items(iterator: Iterator[Any], mine: deque[Any], queues: list[deque[Any]]) -> Iterator[Any]:
    """One of the iterators of a tee."""
    while True:
        if not mine:
            item = next(iterator, MISSING)
            if item is MISSING:
                return
            for queue in queues:
                queue.append(item)
        yield mine.popleft()
