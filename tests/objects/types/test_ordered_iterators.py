"""Iterators over OrderedDicts that were made before the trace, or that outlive a graph break: they are read without being advanced."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch

import framejit

x = torch.arange(3.0)
KINDS = ["keys", "values", "items"]


@pytest.fixture(autouse=True)
def fresh() -> None:
    framejit.reset()


def moved(**items: Any) -> OrderedDict[str, Any]:
    """An OrderedDict whose order isn't that of its plain dict."""
    made = OrderedDict(items)
    made.move_to_end("a")
    return made


GIVEN = [OrderedDict(a=1, b=2, c=3), moved(a=1, b=2, c=3), OrderedDict([(1, 2), ("b", 5), (7, 7), (3, 3)]), OrderedDict(c=3)]


def take_one(a, iterator):
    return a + 1, next(iterator, None)


def take_all(a, iterator):
    found = []
    for item in iterator:
        found.append(item)
    return a + len(found), found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", [take_one, take_all])
@pytest.mark.parametrize("make", [iter, reversed])
def test_they_are_stepped(program, kind, make):
    compiled = framejit.compile(program, backend="eager")
    for given in GIVEN:
        for taken in (0, 1, 3):
            one, other = (make(getattr(given, kind)()) for _ in range(2))
            for iterator in (one, other):
                for _ in range(taken):
                    next(iterator, None)
            found, expected = compiled(x, one), program(x, other)
            assert torch.equal(found[0], expected[0]) and found[1] == expected[1] and list(one) == list(other)
    assert (framejit.statistics()["graph_breaks"], framejit.statistics()["fallbacks"]) == (0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_that_a_graph_break_interrupts(kind):
    def program(a, given):
        found = []
        for item in getattr(given, kind)():
            found.append(item)
            framejit.graph_break()
            a = a + len(found)
        return a, found

    compiled = framejit.compile(program, backend="eager")
    for given in GIVEN:
        found, expected = compiled(x, given), program(x, given)
        assert torch.equal(found[0], expected[0]) and found[1] == expected[1]
    assert framejit.statistics()["fallbacks"] == 0 and all(reason.startswith("FJ008") for reason in framejit.statistics()["reasons"])


class Key:
    """A key whose hash is computed in Python, which guards don't run."""

    hashed = 0

    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        Key.hashed += 1
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.name == other.name


def outcome(run: Any, iterator: Any) -> Any:
    try:
        return run(x, iterator)[1]
    except RuntimeError as error:
        return str(error)


def test_what_guards_may_not_read_is_stepped_natively():
    compiled = framejit.compile(take_all, backend="eager")
    compiled(x, iter(OrderedDict(a=1)))
    keys = [Key("a"), Key("b")]
    assert outcome(compiled, iter(OrderedDict.fromkeys(keys))) == keys
    ended = iter(OrderedDict(a=1))
    list(ended)
    assert outcome(compiled, ended) == [] and outcome(compiled, iter(OrderedDict.fromkeys(keys, 2).values())) == [2, 2]
    texts = []
    for program in (take_all, compiled):
        given = OrderedDict(a=1, b=2)
        iterator = iter(given)
        next(iterator)
        given["c"] = 3
        texts.append(outcome(program, iterator))
    assert texts[0] == texts[1] and texts[0].startswith("OrderedDict ")


def test_a_dict_that_changes_while_it_is_iterated_over():
    def program(a, given, iterator):
        first = next(iterator)
        given.move_to_end(first)
        return a + 1, [first, *iterator]

    compiled = framejit.compile(program, backend="eager")
    results = []
    for run in (compiled, program):
        given = OrderedDict(a=1, b=2, c=3)
        with pytest.raises(RuntimeError) as caught:
            run(x, given, iter(given))
        results.append((str(caught.value), list(given)))
    assert results[0] == results[1]
