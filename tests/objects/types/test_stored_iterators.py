"""Iterators that compiled functions leave behind, over containers that they have changed: their position, and what they still give."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from agreement import Comparison

import framejit

x = torch.arange(3.0)

CONTAINERS: dict[str, Callable[[], Any]] = {
    "list": lambda: [1, 2],
    "dict": lambda: {1: 1, 2: 2},
    "OrderedDict": lambda: OrderedDict({1: 1, 2: 2}),
    "deque": lambda: deque([1, 2]),
}
ITERATORS: dict[str, Callable[[Any], Any]] = {
    "iter": iter,
    "reversed": reversed,
    "enumerate": enumerate,
    "zip": lambda c: zip(c, c),
    "map": lambda c: map(str, c),
    "filter": lambda c: filter(None, c),
    "generator": lambda c: (item for item in c),
}


def grow(c: Any) -> None:
    c.append(3) if hasattr(c, "append") else c.update({3: 3})


def shrink(c: Any) -> None:
    c.pop(1) if isinstance(c, (list, dict)) else c.pop()


def swap(c: Any) -> None:
    shrink(c)
    grow(c)


def store(c: Any) -> None:
    c[1] = 7


CHANGES = {"grow": grow, "shrink": shrink, "swap": swap, "store": store, "clear": lambda c: c.clear()}


def given(iterator: Any, times: int) -> list[Any]:
    """Return the results of some steps: items, "end", or the error's text."""
    items: list[Any] = []
    for _ in range(times):
        try:
            items.append(next(iterator, "end"))
        except RuntimeError as error:
            items.append(str(error))
    return items


def agrees(program: Callable[[Callable[..., Any]], Any]) -> None:
    Comparison().same(program(lambda fn: fn), program(lambda fn: framejit.compile(fn, backend="eager")))


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize("make", ITERATORS)
@pytest.mark.parametrize("change", CHANGES)
def test_iterators_over_what_is_changed_after_they_are_stored(kind, make, change):
    make, change = ITERATORS[make], CHANGES[change]

    def run(t, kept, c, first, last, made):
        kept.i = make(c) if not made else None
        if made:
            change(c)
            kept.i = make(c)
        given(kept.i, first)
        if not made:
            change(c)
        return t + 1, given(kept.i, last)

    def program(compile):
        compiled, seen = compile(run), []
        for first, last, made in [(0, 0, False), (0, 1, False), (1, 2, False), (3, 0, False), (0, 4, False), (1, 1, True)]:
            kept, c = SimpleNamespace(), CONTAINERS[kind]()
            seen.append(compiled(x, kept, c, first, last, made))
            seen.append(given(kept.i, 1))
            if hasattr(c, "append"):
                c.append(99)
            seen += [given(kept.i, 5), c]
        return seen

    agrees(program)


def test_iterators_among_the_items_of_what_they_run_over():
    def in_list(t, items):
        it = iter(items)
        next(it), next(it)
        items.append(it)
        last = next(it)
        items.append(5)
        return t + 1, last is it

    def in_dict(t, table):
        table[1] = iter(table)
        next(table[1])
        return t + 1

    def program(compile):
        items, table = [1, 2], {1: 1, 2: 2}
        seen = [compile(in_list)(x, items), given(items[2], 2), compile(in_dict)(x, table), given(table[1], 2)]
        made = compile(lambda t: (in_dict(t, other := {1: 1, 2: 2}), other))(x)[1]
        return [*seen, given(made[1], 2), list(table), list(made)]

    agrees(program)


def test_positions_behind_the_end():
    def run(t, items):
        it, mine = iter(items), [1, 2]
        also = reversed(mine)
        next(it), next(it)
        items.clear()
        mine.clear()
        return t + 1, it, also, mine

    def program(compile):
        items = [1, 2]
        result, it, also, mine = compile(run)(x, items)
        items += [3, 4, 5]
        mine += [3, 4, 5]
        return result, given(it, 2), given(also, 2)

    agrees(program)


def test_replays_wait_for_the_contents_that_an_iterator_looks_at():
    def run(t, kept, table, other):
        kept.first = None
        table[3] = 3
        kept.first = enumerate(iter(table))
        next(kept.first)
        other[4] = kept.first
        table[1] = t
        return t + 1

    def program(compile):
        compiled, seen = compile(run), []
        for _ in range(2):
            kept, table, other = SimpleNamespace(), {1: 1, 2: 2}, {}
            compiled(x, kept, table, other)
            seen.append([other[4] is kept.first, list(other[4]), table])
        return seen

    before = framejit.statistics()["fallbacks"]
    agrees(program)
    assert framejit.statistics()["fallbacks"] == before


def test_iterators_from_outside_move_before_what_they_run_over_changes():
    def run(t, items, it):
        grow(other := [0])
        first = next(it)
        items.append(first)
        return t + 1, other

    def program(compile):
        compiled, seen = compile(run), []
        for _ in range(2):
            items = [1, 2]
            it = iter(items)
            seen += [compiled(x, items, it), list(it), items]
        return seen

    agrees(program)


def test_a_list_subclass_with_an_iter_of_its_own():
    class Numbers(list):
        def __iter__(self):
            return iter(["own"])

    def run(t, items):
        it = list.__iter__(items)
        next(it)
        items.append(3)
        return t + 1, it

    def program(compile):
        compiled = compile(run)
        return [list(compiled(x, Numbers([1, 2]))[1]) for _ in range(2)]

    agrees(program)
