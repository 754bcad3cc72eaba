"""Iterators of itertools: what they do when they are made and when they are stepped, and how they go on after an exception."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framejit

x = torch.ones(1)


def inverse(n):
    return 1 // n


def stops_at_two(n):
    if n == 2:
        raise StopIteration
    return n


AFTER_AN_EXCEPTION: dict[str, Callable[[], Iterator[Any]]] = {
    "starmap": lambda: itertools.starmap(inverse, [(1,), (0,), (1,)]),
    "takewhile": lambda: itertools.takewhile(inverse, [1, 0, 1]),
    "dropwhile": lambda: itertools.dropwhile(inverse, [1, 0, 2, 3]),
    "filterfalse": lambda: itertools.filterfalse(inverse, [2, 0, 3]),
    "accumulate": lambda: itertools.accumulate([1, 0, 2], lambda a, b: a // b),
    "groupby": lambda: map(lambda pair: pair[0], itertools.groupby([1, 0, 2], inverse)),
    "chain": lambda: itertools.chain([1], map(inverse, [1, 0, 1]), [5]),
    "islice": lambda: itertools.islice(map(inverse, [1, 0, 1, 1]), 3),
    "zip_longest": lambda: itertools.zip_longest(map(inverse, [1, 0, 1]), [1, 2]),
    "pairwise": lambda: itertools.pairwise(map(inverse, [1, 0, 1, 1])),
    "compress": lambda: itertools.compress(map(inverse, [1, 0, 1]), [1, 1, 1]),
    "cycle": lambda: itertools.cycle(map(inverse, [1, 0, 1])),
    "takewhile, StopIteration": lambda: itertools.takewhile(stops_at_two, [1, 2, 3, 4]),
    "starmap, StopIteration": lambda: itertools.starmap(stops_at_two, [(1,), (2,), (3,)]),
    "accumulate, StopIteration": lambda: itertools.accumulate([1, 2, 2, 4], lambda a, b: stops_at_two(b)),
    "iter": lambda: iter(iter([1, 2, 3]).__next__, 5),
}


def stepped(a, make):
    out = []
    iterator = make()
    for _ in range(6):
        try:
            out.append(next(iterator))
        except (ZeroDivisionError, StopIteration, RuntimeError) as error:
            out.append(type(error).__name__)
    return a + 1, out, type(iterator)


@pytest.mark.parametrize("kind", AFTER_AN_EXCEPTION)
def test_iterators_in_c_go_on_after_an_exception(kind):
    make = AFTER_AN_EXCEPTION[kind]
    expected, found = stepped(x, make), framejit.compile(stepped, backend="eager")(x, make)
    assert torch.equal(found[0], expected[0]) and found[1:] == expected[1:]


class Asked:
    """Says when it is asked for an iterator."""

    def __init__(self, log, items):
        self.log = log
        self.items = items

    def __iter__(self):
        self.log.append("iter")
        return iter(self.items)


MADE: list[Callable[[Any], Iterator[Any]]] = [
    lambda items: itertools.chain(items, items), lambda items: itertools.chain.from_iterable([items]), lambda items: itertools.cycle(items),
    lambda items: itertools.islice(items, 2), lambda items: itertools.starmap(inverse, items), lambda items: itertools.takewhile(bool, items),
    lambda items: itertools.dropwhile(bool, items), lambda items: itertools.filterfalse(None, items), lambda items: itertools.compress(items, items),
    lambda items: itertools.pairwise(items), lambda items: itertools.accumulate(items), lambda items: itertools.zip_longest(items, items),
    lambda items: itertools.product(items, repeat=2), lambda items: itertools.permutations(items, 2), lambda items: itertools.combinations(items, 2),
    lambda items: itertools.combinations_with_replacement(items, 2), lambda items: itertools.tee(items)[0],
    lambda items: map(operator.itemgetter(0), itertools.groupby(items)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(MADE)))
def test_what_is_done_when_they_are_made(number):
    make = MADE[number]

    def program(a):
        log: list[Any] = []
        items = [(2,), (1,), (3,)]
        iterator = make(Asked(log, items))
        log.append("made")
        items.append((4,))
        for item in iterator:
            log.append(item)
            if len(log) > 40:
                break
        try:
            make(5)
        except TypeError as error:
            log.append(str(error))
        return a + 1, log

    expected, found = program(x), framejit.compile(program, backend="eager")(x)
    assert torch.equal(found[0], expected[0]) and found[1] == expected[1]


def test_permutations_are_not_picked_from_all_products():
    def program(a):
        count = 0
        for order in itertools.permutations(range(6)):
            count += order[0]
        return a + count

    assert torch.equal(framejit.compile(program, backend="eager", fullgraph=True)(x), program(x))


# Iterators that share something: groups with their groupby, the iterators of a tee with each other.


class Copyable:
    """An iterator that says how it is copied."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self.n += 1
        if self.n > 3:
            raise StopIteration
        return self.n

    def __copy__(self) -> Copyable:
        return Copyable(self.n)


def group_steps_itself_in_key() -> Any:
    def key(n: int) -> bool:
        if n == 5:
            list(group)
        return n != 6

    found = []
    for name, group in itertools.groupby(range(10), key):
        found.append((name, list(group)))
    return found


def group_steps_itself_in_comparison() -> Any:
    class Key:
        def __init__(self, v: Any) -> None:
            pass

        def __eq__(self, other: object) -> bool:
            nonlocal i
            i += 1
            if i == 1:
                next(group, None)
            return True

    i = 0
    group = next(itertools.groupby(range(10), Key))[1]
    return [next(group, None) for _ in range(3)], i


def tee_is_stepped_by_its_source(how: int) -> Any:
    class Source:
        first = True

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> Any:
            if not self.first:
                return 1
            self.first = False
            return next((a, b)[how])

    a, b = itertools.tee(Source())
    try:
        next(a)
    except RuntimeError as error:
        return str(error), next(b)


def tee_of_a_tee() -> Any:
    a, b = itertools.tee("abcd")
    next(a)
    c, d = itertools.tee(a)
    return a is c, list(b), list(c), list(d), list(a)


def tee_of_what_can_be_copied() -> Any:
    source = Copyable(0)
    a, b = itertools.tee(source)
    return type(b) is Copyable, next(a), list(a), list(b), itertools.tee(source, 1)[0] is source, itertools.tee(source, 0)


def their_types() -> Any:
    tees, groups = itertools.tee("ab"), [group for _, group in itertools.groupby("aab")]
    return [(type(made), hasattr(made, "send"), hasattr(made, "__copy__"), isinstance(made, Iterator)) for made in (*tees, *groups)]


SHARING: list[Callable[[], Any]] = [
    group_steps_itself_in_key, group_steps_itself_in_comparison, lambda: tee_is_stepped_by_its_source(0), lambda: tee_is_stepped_by_its_source(1),
    tee_of_a_tee, tee_of_what_can_be_copied, their_types,
]  # fmt: skip


@pytest.mark.parametrize("program", SHARING, ids=lambda program: program.__name__)
def test_iterators_that_share_something(program):
    expected = program()
    assert framejit.compile(program, backend="eager")() == expected
