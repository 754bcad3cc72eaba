"""Iterators in compiled functions: laziness, exhaustion, what they leave behind, leaving the function half-consumed."""

from __future__ import annotations

import collections
import itertools
import operator
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import agree, raising

import framejit
from framejit.objects.types.iteratorfields import MAP_HAS_STRICT

x = torch.arange(6.0).reshape(2, 3)


class Countdown:
    """A user's iterator."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


class Letters:
    """A user's sequence, by `__getitem__` and `__len__`."""

    def __len__(self):
        return 3

    def __getitem__(self, i):
        if i >= 3:
            raise IndexError(i)
        return "abc"[i]


def zips(t):
    a = iter([1, 2, 3])
    pairs = list(zip(a, [10, 20]))
    return pairs, list(a), list(zip()), list(zip("ab", range(5), (t, t))), dict(zip("ab", [1, t]))


def strict(t):
    return (
        list(zip([1], [2], strict=True)),
        raising(lambda: list(zip([1, 2], [1], strict=True))),
        raising(lambda: list(zip([1], [1, 2], strict=True))),
        raising(lambda: list(zip([1], [1], [1, 2], strict=True))),
        raising(lambda: list(zip([1], [1], [], strict=True))),
    )


def strict_maps(t):
    return (
        list(map(max, [1, 2], [3, 0], strict=True)),
        raising(lambda: list(map(max, [1, 2], [1], strict=True))),
        raising(lambda: list(map(max, [1], [1, 2], strict=True))),
        raising(lambda: list(map(max, [1], [1], [], strict=True))),
        list(map(max, [1], [1], [], strict=False)),
    )


def enumerations(t):
    e = enumerate("abc", start=5)
    return next(e), list(e), list(e), [i * t for i, _ in enumerate([1, 2])], list(enumerate([], 3)), raising(lambda: enumerate([1], "a"))


def maps(t):
    calls = []

    def note(*args):
        calls.append(args)
        return len(args)

    lazy = map(note, [1, 2, 3], [4, 5])
    before = list(calls)
    return (
        before,
        list(lazy),
        calls,
        list(map(lambda a: a + t, [1, 2])),
        list(map(str, [1, 2])),
        list(filter(None, [0, 1, "", "a"])),
        list(filter(lambda i: i % 2, range(6))),
    )


def user_iterators(t):
    c = Countdown(3)
    first = next(c)
    return (
        first,
        list(c),
        list(c),
        next(c, "end"),
        raising(lambda: next(c)),
        list(Letters()),
        list(reversed(Letters())),
        "b" in Letters(),
        [*Countdown(2)],
        sum(Countdown(4)),
        tuple(zip(Letters(), Countdown(2))),
    )


def generators(t):
    def numbers(n):
        got = []
        for i in range(n):
            received = yield t * i
            got.append(received)
        return got

    def outer():
        result = yield from numbers(2)
        yield result

    g = numbers(3)
    return (
        next(g),
        g.send("x"),
        list(outer()),
        sum(i for i in range(4)),
        list(i * j for i in range(3) if i for j in "ab"),
        raising(lambda: next(iter(()))),
    )


def reversals(t, items):
    return (
        list(reversed(items)),
        list(reversed((1, t))),
        list(reversed(range(4))),
        list(reversed("abc")),
        (reversed("abc"), next(r := reversed(b"abc")), r, type(reversed("ab"))),
        list(reversed({"a": 1, "b": 2})),
        raising(lambda: reversed({1})),
        raising(lambda: reversed(5)),
    )


def ranges(t):
    r = range(2, 20, 3)
    return (
        r,
        len(r),
        r[1],
        r[-1],
        r[1:4],
        5 in r,
        6 in r,
        list(r),
        r == range(2, 19, 3),
        r.index(8),
        r.start,
        r.stop,
        r.step,
        range(0) == range(5, 5),
        bool(range(0)),
        raising(lambda: r[100]),
        raising(lambda: range(1.5)),
        [i for i in range(5, 0, -2)],
    )


def sentinels(t):
    values = [3, 2, 1, 0]
    return list(iter(values.pop, 2)), values


def half_consumed(t, items):
    a, b, c = iter(items), enumerate(items), zip(items, items)
    next(a), next(b), next(c)
    d = map(str, iter([1, 2]))
    e = reversed([1, 2, 3])
    next(e)
    f = iter(range(5))
    next(f)
    g = filter(None, [0, 1])
    h = iter({"a": 1, "b": 2})
    next(h)
    done = iter([1])
    list(done)
    return a, b, c, d, e, f, g, h, done


def chains(t):
    return (
        list(itertools.chain([1], (2, t), "a")),
        list(itertools.chain.from_iterable([[1], [2, 3]])),
        list(itertools.islice(itertools.count(3, 2), 4)),
        list(itertools.islice("abcdef", 1, None, 2)),
        list(itertools.islice("abcdef", 2)),
        list(itertools.repeat(t, 2)),
        list(zip(itertools.cycle("ab"), range(5))),
        raising(lambda: itertools.islice([1], -1)),
    )


def combinatorics(t):
    return (
        list(itertools.product("ab", [1, 2])),
        list(itertools.product(range(2), repeat=3)),
        list(itertools.permutations("abc", 2)),
        list(itertools.permutations([1, 2, 3])),
        list(itertools.combinations(range(4), 2)),
        list(itertools.combinations_with_replacement("ab", 2)),
        list(itertools.product()),
        list(itertools.combinations([1], 2)),
    )


def selections(t):
    return (
        list(itertools.takewhile(lambda i: i < 3, [1, 2, 3, 1])),
        list(itertools.dropwhile(lambda i: i < 3, [1, 2, 3, 1])),
        list(itertools.filterfalse(None, [0, 1, 2])),
        list(itertools.compress("abc", [1, 0, 1])),
        list(itertools.pairwise([1, 2, 3])),
        list(itertools.starmap(pow, [(2, 3), (3, 2)])),
        list(itertools.accumulate([1, 2, 3])),
        list(itertools.accumulate([1, t], lambda a, b: a * b)),
        list(itertools.accumulate([1, 2], initial=10)),
        list(itertools.zip_longest("abc", [1], fillvalue="-")),
        list(itertools.zip_longest()),
    )


def grouping(t):
    groups = [(k, list(g)) for k, g in itertools.groupby([1, 1, 2, 3, 3], key=lambda i: i % 2)]
    lazy = [k for k, _ in itertools.groupby("aabbc")]
    a, b = itertools.tee([1, 2, 3])
    first = next(a)
    return groups, lazy, first, list(b), list(a), t


def loops(t):
    out = []
    for i in range(5):
        if i == 1:
            continue
        if i == 4:
            break
        out.append(t + i)
    else:
        out.append("never")
    for _ in ():
        pass
    else:
        out.append("else")
    return out


ALONE = [
    zips,
    strict,
    *([strict_maps] if MAP_HAS_STRICT else []),
    enumerations,
    maps,
    user_iterators,
    generators,
    ranges,
    sentinels,
    chains,
    combinatorics,
    selections,
    grouping,
    loops,
]


@pytest.mark.parametrize("program", ALONE, ids=lambda program: program.__name__)
def test_iterators_agree_with_eager(program):
    agree(program, x)


def test_reversals():
    agree(reversals, x, [1, x, 3])


def test_half_consumed_iterators_leave_with_their_position():
    compiled = framejit.compile(half_consumed, backend="eager", fullgraph=True)
    for _ in range(2):
        ours, theirs = compiled(x, [1, 2, 3]), half_consumed(x, [1, 2, 3])
        assert [type(i) for i in ours] == [type(i) for i in theirs]
        assert [list(i) for i in ours] == [list(i) for i in theirs]


ITERATORS: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "enumerate": lambda say: enumerate([1, 2, 3]),
    "zip": lambda say: zip([1, 2, 3], range(5)),
    "map": lambda say: map(say, [1, 2, 3]),
    "filter": lambda say: filter(say, [1, 2, 3]),
    "reversed": lambda say: reversed([1, 2, 3]),
    "chain": lambda say: itertools.chain([1], map(say, [2, 3])),
    "chain.from_iterable": lambda say: itertools.chain.from_iterable([[1, 2], [3]]),
    "product": lambda say: itertools.product([1, 2], "ab"),
    "count": lambda say: itertools.islice(itertools.count(4), 3),
    "cycle": lambda say: itertools.islice(itertools.cycle([1, 2]), 3),
    "repeat": lambda say: itertools.repeat(1, 3),
    "groupby": lambda say: ((key, list(group)) for key, group in itertools.groupby([1, 1, 2], say)),
    "accumulate": lambda say: itertools.accumulate([1, 2, 3], lambda a, b: a + say(b)),
    "pairwise": lambda say: itertools.pairwise([1, 2, 3, 4]),
    "starmap": lambda say: itertools.starmap(say, [(1,), (2,), (3,)]),
    "takewhile": lambda say: itertools.takewhile(lambda n: say(n) < 3, [1, 2, 3, 1]),
    "dropwhile": lambda say: itertools.dropwhile(lambda n: say(n) < 2, [1, 2, 3, 1]),
    "compress": lambda say: itertools.compress([1, 2, 3], [1, 0, 1]),
    "filterfalse": lambda say: itertools.filterfalse(lambda n: say(n) > 2, [1, 2, 3]),
    "combinations": lambda say: itertools.combinations([1, 2, 3], 2),
    "zip_longest": lambda say: itertools.zip_longest([1], [2, 3]),
    "tee": lambda say: itertools.tee([1, 2, 3])[1],
    "generator": lambda say: (say(n) for n in [1, 2, 3]),
    "set": lambda say: {1, 2, 3},
    "frozenset": lambda say: frozenset(["a"]),
    "deque": lambda say: collections.deque([1, 2, 3]),
    "OrderedDict": lambda say: collections.OrderedDict(a=1, b=2),
    "dict items": lambda say: {"a": 1, "b": 2}.items(),
}


@pytest.mark.parametrize("make", ITERATORS.values(), ids=ITERATORS)
def test_loops_that_break_go_on_where_the_iterator_was(make):
    """The loop body and what comes behind it are compiled, and steps are taken when eager takes them."""

    def program(t, log):
        def say(n):
            log.append(("step", n))
            return n

        for item in make(say):
            t = t + 1
            log.append(("body", item))
            framejit.graph_break()
            t = t * 2
        return t.sin()

    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    for _ in range(2):
        ours, theirs = [], []
        assert torch.equal(compiled(x, ours), program(x, theirs)) and ours == theirs
    statistics = framejit.statistics()
    assert statistics["fallbacks"] == 0 and statistics["graphs"] > 1, statistics["reasons"]


@pytest.mark.parametrize("make", [lambda: iter(collections.deque([1, 2])), lambda: reversed(collections.deque([1, 2])), lambda: iter({1, 2}),
                                  lambda: iter(collections.OrderedDict(a=1))], ids=["deque", "reversed deque", "set", "OrderedDict"])  # fmt: skip
def test_iterators_from_outside_that_cannot_be_looked_into(make):
    def program(t, items):
        for _ in items:
            t = t + 1
        return t * 2

    framejit.reset()
    assert torch.equal(framejit.compile(program, backend="eager")(x, make()), program(x, make()))
    assert framejit.statistics()["fallbacks"] == 0


def test_generators_that_have_ended_are_carried():
    def program(t):
        ended = (n for n in [1, 2])
        t = t + sum(ended)
        framejit.graph_break()
        return t * 2, next(ended, "ended"), type(ended).__name__

    framejit.reset()
    ours, theirs = framejit.compile(program, backend="eager")(x), program(x)
    assert torch.equal(ours[0], theirs[0]) and ours[1:] == theirs[1:]
    assert framejit.statistics()["fallbacks"] == 0


def test_iterators_of_itertools_are_of_their_own_classes():
    def program(t):
        chained, both = itertools.chain([1], [2]), itertools.chain.from_iterable([[3]])
        generator = isinstance(chained, (types.GeneratorType, collections.abc.Generator))
        named = [type(made).__name__ for made in (chained, both, itertools.count(), itertools.product("ab"), itertools.islice([1], 1))]
        return t + 1, isinstance(chained, itertools.chain), generator, named, hasattr(chained, "send"), chained.__iter__() is chained, chained.__next__()

    agree(program, x)


def test_an_exception_does_not_enter_an_iterator_of_itertools():
    def delegates(log):
        try:
            yield from itertools.chain([1, 2], [3])
        except KeyError as error:
            log.append(repr(error))
            yield 4

    def program(t):
        log = []
        made = delegates(log)
        return t + 1, next(made), made.throw(KeyError("k")), list(made), log

    agree(program, x)


class Logged:
    """A sequence that notes how it is asked, and raises `error` for its item 1."""

    def __init__(self, n, error=IndexError):
        self.n = n
        self.error = error
        self.log = []

    def __len__(self):
        self.log.append("len")
        if self.n < 0:
            raise ZeroDivisionError
        return self.n

    def __getitem__(self, index):
        self.log.append(index)
        if index == 1:
            raise self.error
        return index


def taken(make, error):
    """Return the outcome of a call that uses a reversed sequence, and the log of requests to the sequence."""
    items = Logged(4, error)
    return raising(lambda: make(reversed(items))), items.log


def steps_and_hints(error):
    items = Logged(4, error)
    backwards = reversed(items)
    found = [operator.length_hint(backwards), type(backwards)]
    for _ in range(5):
        found += [raising(lambda: next(backwards, "end")), operator.length_hint(backwards)]
    return found, items.log


def shrinks():
    items = Logged(4, IndexError)
    backwards = reversed(items)
    items.n = 3
    found = [operator.length_hint(backwards), next(backwards), operator.length_hint(backwards)]
    items.n = -1
    return found, raising(lambda: backwards.__length_hint__()), next(backwards), raising(lambda: list(backwards)), raising(lambda: reversed(items)), items.log


def reversed_over_a_break():
    items = Logged(4, IndexError)
    backwards = reversed(items)
    found = [next(backwards)]
    framejit.graph_break()
    return found, next(backwards), list(backwards), items.log


REVERSED_USES = {
    "list": list, "tuple": tuple, "set": set, "star": lambda items: [*items], "extend": lambda items: [].extend(items), "sorted": sorted,
    "sum": sum, "enumerate": lambda items: list(enumerate(items)), "loop": lambda items: [item for item in items], "join": "".join,
}  # fmt: skip


@pytest.mark.parametrize("error", [IndexError, StopIteration, KeyError])
@pytest.mark.parametrize("use", REVERSED_USES.values(), ids=list(REVERSED_USES))
def test_reversed_asks_a_sequence_as_in_eager(use, error):
    expected = taken(use, error)
    assert framejit.compile(taken, backend="eager")(use, error) == expected


@pytest.mark.parametrize("error", [IndexError, StopIteration, KeyError])
def test_reversed_says_how_much_is_left(error):
    expected = steps_and_hints(error)
    assert framejit.compile(steps_and_hints, backend="eager")(error) == expected


@pytest.mark.parametrize("program", [shrinks, reversed_over_a_break], ids=lambda program: program.__name__)
def test_reversed_takes_the_length_when_it_is_made(program):
    expected = program()
    assert framejit.compile(program, backend="eager")() == expected


def stop(value: Any) -> Any:
    raise StopIteration(value)


class Stops:
    """Ends at once, with a value."""

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        raise StopIteration(7)


class Late(StopIteration):
    pass


def returning() -> Any:
    yield from ()
    return 5


def raises_late(item: Any) -> Any:
    raise Late(item)


ENDING: dict[str, Callable[[], Any]] = {
    "map": lambda: map(stop, [1]),
    "map over one": lambda: map(abs, Stops()),
    "map raising a subclass": lambda: map(raises_late, [1]),
    "filter": lambda: filter(stop, [1]),
    "filter over one": lambda: filter(None, Stops()),
    "zip": lambda: zip(Stops(), [1]),
    "zip of a generator": lambda: zip(returning()),
    "enumerate": lambda: enumerate(Stops()),
    "enumerate of a generator": lambda: enumerate(returning()),
    "chain": lambda: itertools.chain(Stops(), returning()),
    "cycle": lambda: itertools.cycle(Stops()),
    "islice": lambda: itertools.islice(Stops(), 3),
    "compress": lambda: itertools.compress(Stops(), [1]),
    "pairwise": lambda: itertools.pairwise(Stops()),
    "takewhile": lambda: itertools.takewhile(stop, [1]),
    "dropwhile": lambda: itertools.dropwhile(stop, [1]),
    "filterfalse": lambda: itertools.filterfalse(stop, [1]),
    "starmap": lambda: itertools.starmap(stop, [(1,)]),
    "accumulate": lambda: itertools.accumulate([1, 2], lambda a, b: stop(4)),
    "groupby": lambda: itertools.groupby([1], stop),
    "zip_longest": lambda: itertools.zip_longest(Stops(), [1]),
    "call until": lambda: iter(lambda: stop(3), 1),
    "nested": lambda: zip(map(abs, enumerate(Stops()))),
}


@pytest.mark.parametrize("make", ENDING.values(), ids=ENDING)
def test_the_value_with_which_an_iterator_ends(make):
    """C code hands on the very StopIteration by which an inner iterator has ended."""

    def delegated():
        value = yield from make()
        yield "value", value

    def program(t):
        ends = []
        for ask in (next, lambda iterator: iterator.__next__()):
            try:
                ask(make())
            except StopIteration as end:
                ends.append((type(end), end.value))
        return t + 1, ends, list(itertools.islice(delegated(), 5)), [item for item in make()] if make is not ENDING["cycle"] else None

    agree(program, torch.ones(2), fullgraph=False)


class Indexed:
    """Counts how often it is asked for its number."""

    def __init__(self) -> None:
        self.asked = 0

    def __index__(self) -> int:
        self.asked += 1
        return 0


@pytest.mark.parametrize("key", [2**70, -(2**70), 0, True, "a", None, Indexed], ids=str)
@pytest.mark.parametrize("container", [(1,), "a", b"a", frozenset(), range(3), 5, None], ids=lambda value: type(value).__name__)
def test_a_store_to_what_has_no_items(container, key):
    """PyObject_SetItem asks what has the slots of a sequence for the index first, and finds out then that there is nothing to store to."""

    def program(t):
        used = key() if key is Indexed else key
        try:
            operator.setitem(container, used, t)
        except (TypeError, IndexError) as error:
            return t + 1, type(error), str(error), getattr(used, "asked", 0)

    agree(program, torch.ones(2), fullgraph=False)
