"""zip, map, most of itertools, and other iterators that are nothing but a few fields: half-way at a graph break, and given from outside."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from agreement import Comparison, outcome

import framejit
from framejit.objects.types.iteratorfields import MAP_HAS_STRICT

x = torch.arange(3.0)


class Numbered:
    """A class with items, and no `__iter__`."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


def inverse(n: Any) -> Any:
    return 1 // n


MAKERS: dict[str, Callable[[], Iterator[Any]]] = {
    "enumerate": lambda: enumerate([x, x + 1, 3], 2**63 - 2),
    "zip": lambda: zip(itertools.count(), [x, x + 1, 3]),
    "strict zip": lambda: zip(range(3), [1, 2], strict=True),
    "map": lambda: map(operator.add, [x, x + 1, 3], itertools.count(2)),
    "map, raising": lambda: map(inverse, [1, 0, 1]),
    **({"strict map": lambda: map(max, range(3), [1, 2], strict=True)} if MAP_HAS_STRICT else {}),
    "filter": lambda: filter(None, [0, 1, 2, None, 3]),
    "iter of a function": lambda: iter([4, 3, 2, 1].pop, 3),
    "iter of items": lambda: iter(Numbered([x, 1, 2])),
    "accumulate": lambda: itertools.accumulate([x, x + 1, x + 2]),
    "accumulate, with a function": lambda: itertools.accumulate([x, x + 1, 2], operator.mul, initial=2),
    "chain": lambda: itertools.chain([x], [], (1, 2), {"a": 1}),
    "chain, raising": lambda: itertools.chain([x], 5, [1]),  # type: ignore[arg-type]
    "chain.from_iterable": lambda: itertools.chain.from_iterable([[x], (1, 2)]),
    "compress": lambda: itertools.compress([x, x + 1, 2, 3], [1, 0, 1, 1]),
    "count": lambda: itertools.count(5),
    "count by floats": lambda: itertools.count(0.5, 2),
    "count to the end of a word": lambda: itertools.count(2**63 - 3),
    "cycle": lambda: itertools.cycle([x, 1]),
    "dropwhile": lambda: itertools.dropwhile(lambda n: n < 2, [0, 1, 2, 0, 1]),
    "filterfalse": lambda: itertools.filterfalse(lambda n: n == 1, [0, 1, 2, 3]),
    "islice": lambda: itertools.islice([x, x + 1, 2, 3, 4, 5, 6], 1, 6, 2),
    "islice without an end": lambda: itertools.islice(itertools.count(), 3, None),
    "islice, raising": lambda: itertools.islice(map(inverse, [1, 0, 1]), 3),
    "pairwise": lambda: itertools.pairwise([x, x + 1, 2, 3]),
    "repeat": lambda: itertools.repeat(x, 3),
    "repeat without an end": lambda: itertools.repeat(x),
    "starmap": lambda: itertools.starmap(operator.mul, [(x, 2), [3, 4], (5, 6)]),
    "takewhile": lambda: itertools.takewhile(lambda n: n < 3, [0, 1, 2, 3, 0]),
    "zip_longest": lambda: itertools.zip_longest([x], range(3), (), fillvalue=x + 5),
    "enumerate of a zip": lambda: enumerate(zip([x, 1, 2], itertools.repeat(7))),
}


def rest(iterator: Any) -> list[Any]:
    """Return the results of the next four steps of an iterator: items, "end", or an exception's type and text."""
    found = []
    for _ in range(4):
        kind, value = outcome(next, (iterator, "end"), {})
        found.append(value if kind == "returned" else (type(value).__name__, str(value)))
    return found


def step(iterator: Any) -> Any:
    try:
        return next(iterator, "end")
    except (ZeroDivisionError, TypeError, ValueError) as error:
        return type(error).__name__


def made_before_a_break(t: Any, make: Any) -> Any:
    iterator = make()
    first = step(iterator)
    print(end="")
    second = step(iterator)
    return t + 1, first, second, iterator


def given_and_returned(t: Any, iterator: Any) -> Any:
    first, second = step(iterator), step(iterator)
    return t * 2, first, second


@pytest.mark.parametrize("name", MAKERS)
def test_half_way_at_a_break(name: str) -> None:
    """The break is the only one, and the real iterator goes on where the trace has left it."""
    framejit.reset()
    expected, compiled = made_before_a_break(x, MAKERS[name]), framejit.compile(made_before_a_break, backend="eager")
    for _ in range(2):
        found = compiled(x, MAKERS[name])
        assert type(found[-1]) is type(expected[-1])
        Comparison().same(expected[:-1], found[:-1])
        Comparison().same(rest(made_before_a_break(x, MAKERS[name])[-1]), rest(found[-1]))
    statistics = framejit.statistics()
    assert statistics["graph_breaks"] == 1 and "print" in statistics["reasons"][0], statistics["reasons"]


@pytest.mark.parametrize("name", MAKERS)
def test_given_from_outside(name: str) -> None:
    """Stepped in one graph, however far it has come; afterwards it stands where eager leaves it."""
    framejit.reset()
    compiled = framejit.compile(given_and_returned, backend="eager", fullgraph=True)
    for taken in (0, 0, 1, 2, 3, 0):
        ours, eager = MAKERS[name](), MAKERS[name]()
        for iterator in (ours, eager):
            for _ in range(taken):
                step(iterator)
        Comparison().same(given_and_returned(x, eager), compiled(x, ours))
        Comparison().same(rest(eager), rest(ours))


def test_loops_that_break_in_their_body():
    def run(t, n):
        total = t
        for number, (row, factor) in enumerate(zip(itertools.islice(t.unbind(), 1, None), itertools.count(n))):
            total = total + row * number * factor
            print(end="")
        return total

    t = torch.arange(36.0).reshape(12, 3)
    compiled = framejit.compile(run, backend="eager")
    for n in (1, 1, 5):
        assert torch.equal(compiled(t, n), run(t, n))
    statistics = framejit.statistics()
    assert all("print" in reason for reason in statistics["reasons"]) and statistics["fallbacks"] == 0, statistics["reasons"]
    assert statistics["frames"] <= 8, statistics


def test_iterators_inside_what_they_run_over():
    def run(t, items):
        made: list[Any] = [1, 2]
        both = itertools.chain(made, items)
        made.append(both)
        items.append(both)
        first = next(both)
        print(end="")
        return t + first, both, next(both)

    compiled = framejit.compile(run, backend="eager")
    for _ in range(2):
        _, both, second = compiled(x, [7])
        assert second == 2 and next(both) is both and next(both) == 7 and next(both) is both and next(both, None) is None


def test_two_steps_of_one_iterator_by_two_ways():
    def run(t, pairs, inner):
        return t + 1, step(pairs), step(inner), step(pairs), step(inner)

    compiled = framejit.compile(run, backend="eager", fullgraph=True)
    for make in (enumerate, itertools.pairwise, lambda it: zip(it, it), lambda it: map(str, it)) * 2:
        eager, ours = iter(range(20)), iter(range(20))
        Comparison().same(run(x, make(eager), eager), compiled(x, make(ours), ours))
        assert list(eager) == list(ours)


def test_a_step_that_breaks_in_a_function_of_the_program():
    def run(t, it):
        seen = []
        for item in it:
            seen.append(item)
        return t + 1, seen

    def said(n):
        print(end="")
        return n + 1

    for make in (lambda: map(said, [1, 2, 3]), lambda: itertools.starmap(said, [(1,), (2,)]), lambda: itertools.takewhile(said, [1, -1, 2])):
        Comparison().same(run(x, make()), framejit.compile(run, backend="eager")(x, make()))
