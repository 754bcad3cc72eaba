"""itertools in plain Python, following the equivalents in its documentation.

A stand-in does what the C iterator does at its creation: it checks its arguments, asks for iterators, and takes the items that it will need more than once.
Then the iterator is `made` with its first fields, and a function defines how each step changes these (STEPS). If its state isn't fields alone, a generator that
is as lazy as the iterator stands in for it.
"""

from __future__ import annotations

import itertools
import operator
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from framejit._runtime import ITERATOR_FIELDS, iterator_field
from framejit.plain.support import END, NULL, made

MISSING: Any = object()
LARGEST = sys.maxsize
Batched: Any = vars(itertools).get("batched")
HAS_FIRST_PASS = "cycle.firstpass" in ITERATOR_FIELDS[itertools.cycle]
"""True if a cycle has the field `firstpass`, which says that no items are to be saved. Only `__setstate__` ever sets it, which 3.14 has no more."""
CYCLE_START = {"index": iterator_field(itertools.cycle(()), "cycle.index"), **({"firstpass": 0} if HAS_FIRST_PASS else {})}
"""The fields of a cycle that goes through its iterable for the first time."""


def said_of_negative(iterable: Any) -> str:
    """Return the text of the error for combinations of a negative length from an iterable."""
    try:
        itertools.combinations(iterable, -1)
    except (TypeError, ValueError) as error:
        return str(error)
    raise AssertionError("no error")


NEGATIVE = said_of_negative(())
"""The text of the error for a negative length."""
CHECKS_LENGTH_FIRST = said_of_negative(1) == NEGATIVE
"""True if combinations check their length before they take the items of the iterable."""


def chain(*iterables: Iterable[Any]) -> Iterator[Any]:
    """itertools.chain."""
    return made(itertools.chain, source=iter(iterables), active=NULL)


def chain_from_iterable(cls: type, iterables: Iterable[Iterable[Any]]) -> Iterator[Any]:
    """itertools.chain.from_iterable."""
    return made(itertools.chain, source=iter(iterables), active=NULL)


def chain_step(self: Any) -> Any:
    """chain_next."""
    while self.source is not NULL:
        if self.active is NULL:
            try:
                iterable = next(self.source, MISSING)
                if iterable is not MISSING:
                    self.active = iter(iterable)
            except BaseException:
                self.source = NULL
                raise
            if iterable is MISSING:
                self.source = NULL
                return END
        item = next(self.active, MISSING)
        if item is not MISSING:
            return item
        self.active = NULL
    return END


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
    if isinstance(start, int) and isinstance(step, int) and step == 1 and -LARGEST - 1 <= start <= LARGEST:
        return made(itertools.count, cnt=operator.index(start), long_cnt=NULL, long_step=step)  # count_new's fast mode counts in C
    return made(itertools.count, cnt=LARGEST, long_cnt=start, long_step=step)


def count_step(self: Any) -> Any:
    """count_next and count_nextlong."""
    if self.cnt != LARGEST:
        value = self.cnt
        self.cnt = value + 1
        return value
    if self.long_cnt is NULL:
        self.long_cnt = LARGEST
    value = self.long_cnt
    self.long_cnt = value + self.long_step
    return value


def repeat(object: Any, times: Any = MISSING) -> Iterator[Any]:
    """itertools.repeat."""
    return made(itertools.repeat, element=object, cnt=-1 if times is MISSING else max(as_size(times), 0))


def repeat_step(self: Any) -> Any:
    """repeat_next."""
    if self.cnt == 0:
        return END
    if self.cnt > 0:
        self.cnt -= 1
    return self.element


def cycle(iterable: Iterable[Any]) -> Iterator[Any]:
    """itertools.cycle."""
    return made(itertools.cycle, it=iter(iterable), saved=[], **CYCLE_START)


def cycle_step(self: Any) -> Any:
    """cycle_next."""
    if self.it is not NULL:
        item = next(self.it, MISSING)
        if item is not MISSING:
            if not HAS_FIRST_PASS or not self.firstpass:
                self.saved.append(item)
            return item
        self.it = NULL
        self.index = 0
    if not self.saved:
        return END
    item = self.saved[self.index]
    self.index = (self.index + 1) % len(self.saved)
    return item


def size(value: Any) -> int:
    """An argument of islice: any exception becomes -1."""
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
    return made(itertools.islice, it=iter(iterable), next=begin, stop=-1 if end is None else end, step=stride, cnt=0)


def islice_step(self: Any) -> Any:
    """islice_next; any exception ends the iterator."""
    if self.it is NULL:
        return END
    iterator = self.it
    try:
        while self.cnt < self.next:
            if next(iterator, MISSING) is MISSING:
                self.it = NULL
                return END
            self.cnt += 1
        item = MISSING if self.stop != -1 and self.cnt >= self.stop else next(iterator, MISSING)
    except BaseException:
        self.it = NULL
        raise
    if item is MISSING:
        self.it = NULL
        return END
    self.cnt += 1
    following = self.next + self.step
    self.next = self.stop if following > LARGEST or self.stop != -1 and following > self.stop else following
    return item


def starmap(function: Callable[..., Any], iterable: Iterable[Iterable[Any]]) -> Iterator[Any]:
    """itertools.starmap."""
    return made(itertools.starmap, func=function, it=iter(iterable))


def starmap_step(self: Any) -> Any:
    """starmap_next."""
    args = next(self.it, MISSING)
    return END if args is MISSING else self.func(*tuple(args))


def takewhile(predicate: Callable[[Any], Any], iterable: Iterable[Any]) -> Iterator[Any]:
    """itertools.takewhile."""
    return made(itertools.takewhile, func=predicate, it=iter(iterable), stop=0)


def takewhile_step(self: Any) -> Any:
    """takewhile_next."""
    if self.stop:
        return END
    item = next(self.it, MISSING)
    if item is MISSING:
        return END
    if self.func(item):
        return item
    self.stop = 1
    return END


def dropwhile(predicate: Callable[[Any], Any], iterable: Iterable[Any]) -> Iterator[Any]:
    """itertools.dropwhile."""
    return made(itertools.dropwhile, func=predicate, it=iter(iterable), start=0)


def dropwhile_step(self: Any) -> Any:
    """dropwhile_next."""
    while True:
        item = next(self.it, MISSING)
        if item is MISSING:
            return END
        if self.start:
            return item
        if not self.func(item):
            self.start = 1
            return item


def filterfalse(predicate: Callable[[Any], Any] | None, iterable: Iterable[Any]) -> Iterator[Any]:
    """itertools.filterfalse."""
    return made(itertools.filterfalse, func=predicate, it=iter(iterable))


def filterfalse_step(self: Any) -> Any:
    """filterfalse_next."""
    while True:
        item = next(self.it, MISSING)
        if item is MISSING:
            return END
        if not (item if self.func is None or self.func is bool else self.func(item)):
            return item


def compress(data: Iterable[Any], selectors: Iterable[Any]) -> Iterator[Any]:
    """itertools.compress."""
    return made(itertools.compress, data=iter(data), selectors=iter(selectors))


def compress_step(self: Any) -> Any:
    """compress_next."""
    while True:
        item = next(self.data, MISSING)
        selected = MISSING if item is MISSING else next(self.selectors, MISSING)
        if selected is MISSING:
            return END
        if selected:
            return item


def pairwise(iterable: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """itertools.pairwise."""
    return made(itertools.pairwise, it=iter(iterable), old=NULL)


def pairwise_step(self: Any) -> Any:
    """pairwise_next; any exception ends the iterator."""
    if self.it is NULL:
        return END
    try:
        item = next(self.it, MISSING) if self.old is NULL else self.old
        if item is not MISSING and self.it is not NULL:  # a step of its own iterator may have ended it
            self.old = item
            following = next(self.it, MISSING)
        else:
            following = MISSING
    except BaseException:
        self.it = self.old = NULL
        raise
    if following is MISSING:
        self.it = self.old = NULL
        return END
    self.old = following
    return item, following


def batched(iterable: Iterable[Any], n: Any) -> Iterator[tuple[Any, ...]]:
    """itertools.batched."""
    return in_batches(iterable, as_size(n))


def strictly_batched(iterable: Iterable[Any], n: Any, *, strict: Any = False) -> Iterator[tuple[Any, ...]]:
    """itertools.batched of Python 3.13 and later."""
    length = as_size(n)
    return in_batches(iterable, length, strict=int(bool(strict)))


def in_batches(iterable: Iterable[Any], length: int, **fields: int) -> Iterator[tuple[Any, ...]]:
    """A new batched iterator. `fields`: those that not all Pythons have."""
    if length < 1:
        raise ValueError("n must be at least one")
    return made(Batched, it=iter(iterable), batch_size=length, **fields)


HAS_STRICT = "batched.strict" in ITERATOR_FIELDS.get(Batched, ())
"""True if the iterator has a field which says that an incomplete batch is an error."""
if HAS_STRICT:
    batched = strictly_batched


def batched_step(self: Any) -> Any:
    """batched_next; any exception except StopIteration ends the iterator."""
    if self.it is NULL:
        return END
    items: list[Any] = []
    try:
        while len(items) < self.batch_size:
            item = next(self.it, MISSING)
            if item is MISSING:
                break
            items.append(item)
    except StopIteration:
        pass
    except BaseException:
        self.it = NULL
        raise
    if not items:
        self.it = NULL
        return END
    if HAS_STRICT and self.strict and len(items) < self.batch_size:
        self.it = NULL
        raise ValueError("batched(): incomplete batch")
    return tuple(items)


def accumulate(iterable: Iterable[Any], func: Callable[[Any, Any], Any] | None = None, *, initial: Any = None) -> Iterator[Any]:
    """itertools.accumulate."""
    return made(itertools.accumulate, it=iter(iterable), binop=NULL if func is None else func, total=NULL, initial=initial)


def accumulate_step(self: Any) -> Any:
    """accumulate_next."""
    if self.initial is not None:
        self.total = self.initial
        self.initial = None
        return self.total
    item = next(self.it, MISSING)
    if item is MISSING:
        return END
    if self.total is NULL:
        self.total = item
    elif self.binop is NULL:
        self.total = self.total + item
    else:
        self.total = self.binop(self.total, item)
    return self.total


def zip_longest(*iterables: Iterable[Any], fillvalue: Any = None) -> Iterator[tuple[Any, ...]]:
    """itertools.zip_longest."""
    iterators = tuple([iter(iterable) for iterable in iterables])
    return made(itertools.zip_longest, ittuple=iterators, numactive=len(iterators), fillvalue=fillvalue)


def zip_longest_step(self: Any) -> Any:
    """zip_longest_next. None stands for an iterator that has ended."""
    if not self.numactive:
        return END
    values = []
    for position in range(len(self.ittuple)):
        iterator = self.ittuple[position]
        value = self.fillvalue
        if iterator is not None:
            try:
                value = next(iterator, MISSING)
            except BaseException:
                self.numactive = 0
                raise
            if value is MISSING:
                self.numactive -= 1
                if not self.numactive:
                    return END
                self.ittuple = (*self.ittuple[:position], None, *self.ittuple[position + 1 :])
                value = self.fillvalue
        values.append(value)
    return tuple(values)


STEPS: dict[str, Callable[[Any], Any]] = {
    "chain": chain_step, "count": count_step, "repeat": repeat_step, "cycle": cycle_step, "islice": islice_step, "starmap": starmap_step,
    "takewhile": takewhile_step, "dropwhile": dropwhile_step, "filterfalse": filterfalse_step, "compress": compress_step, "pairwise": pairwise_step,
    "batched": batched_step, "accumulate": accumulate_step, "zip_longest": zip_longest_step,
}  # fmt: skip
"""The step of each iterator, by the iterator's name: a function of its fields, which have the names in CPython's sources."""


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


def pool_and_length(iterable: Iterable[Any], r: Any) -> tuple[tuple[Any, ...], int]:
    """The items and the length of combinations, checked in the order in which C code does."""
    length = as_size(r)
    if length < 0 and CHECKS_LENGTH_FIRST:
        raise ValueError(NEGATIVE)
    pool = tuple(iterable)
    if length < 0:
        raise ValueError(NEGATIVE)
    return pool, length


def combinations(iterable: Iterable[Any], r: Any) -> Iterator[tuple[Any, ...]]:
    """itertools.combinations."""
    return combinations_items(*pool_and_length(iterable, r))


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
    return combinations_with_replacement_items(*pool_and_length(iterable, r))


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
        """The items of one group, which ends once the next group has been asked for."""
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


class Copied:
    """An iterator that says whether it is copied by tee()."""

    def __iter__(self) -> Copied:
        return self

    def __next__(self) -> None:
        return None

    def __copy__(self) -> None:
        return None


TEE: type = type(itertools.tee(())[0])
COPIES_ANY = itertools.tee(Copied())[1] is None
"""True if tee() copies any iterator that has a `__copy__`: from Python 3.14 on, it copies only its own."""


def tee(iterable: Iterable[Any], n: Any = 2) -> tuple[Iterator[Any], ...]:
    """itertools.tee."""
    times = as_size(n)
    if times < 0:
        raise ValueError("n must be >= 0")
    if times == 0:
        return ()
    iterator = iter(iterable)
    if not COPIES_ANY:
        if isinstance(iterator, TEE):
            return tuple([iterator.__copy__() for _ in range(times)])  # type: ignore[attr-defined]
    elif (copy := getattr(iterator, "__copy__", None)) is not None:
        return (iterator, *[copy() for _ in range(times - 1)])
    shared = Shared(iterator, times)
    return tuple([tee_items(shared, queue) for queue in shared.queues])


class Shared:
    """The state that the iterators of a tee share. `running`: whether one of them is taking an item, which may run any code."""

    __slots__ = ("iterator", "queues", "running")

    def __init__(self, iterator: Iterator[Any], times: int) -> None:
        self.iterator = iterator
        self.queues: list[deque[Any]] = [deque() for _ in range(times)]
        self.running = False

    def take(self) -> bool:
        """Take an item for all iterators; False at the end (teedataobject_getitem)."""
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
