"""Views of dicts that were made before the trace, or that outlive a graph break: guards find the dict through them."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import framejit

x = torch.arange(3.0)
FAMILIES: list[Callable[..., Any]] = [dict, OrderedDict, Counter, lambda **items: defaultdict(list, items)]


@pytest.fixture(autouse=True)
def fresh() -> None:
    framejit.reset()


def looks(a, keys, values, items):
    for value in values:
        a = a * value
    found = [list(keys), len(items), "b" in keys, keys & {"a", "c"}, "c" not in keys, bool(values), ("a", 2) in items, list(reversed(keys))]
    return a, found, keys.mapping["a"], repr(keys)


@pytest.mark.parametrize("family", FAMILIES)
def test_views_from_outside(family):
    compiled = framejit.compile(looks, backend="eager")
    for given in (family(a=2, b=3), family(a=2, b=3), family(b=3, a=4), family(a=1)):
        args = given.keys(), given.values(), given.items()
        found, expected = compiled(x, *args), looks(x, *args)
        assert torch.equal(found[0], expected[0]) and found[1:] == expected[1:]
    assert (framejit.statistics()["graph_breaks"], framejit.statistics()["fallbacks"]) == (0, 0)


@pytest.mark.parametrize("family", FAMILIES)
def test_views_that_outlive_a_graph_break(family):
    def program(a, given):
        keys, values, items = given.keys(), given.values(), given.items()
        framejit.graph_break()
        return looks(a, keys, values, items)

    compiled = framejit.compile(program, backend="eager")
    for given in (family(a=2, b=3), family(b=3, a=4, c=1)):
        found, expected = compiled(x, given), program(x, given)
        assert torch.equal(found[0], expected[0]) and found[1:] == expected[1:]
    assert (framejit.statistics()["graph_breaks"], framejit.statistics()["fallbacks"]) == (1, 0)


@pytest.mark.parametrize("family", [dict, OrderedDict])
def test_a_view_sees_changes_of_its_dict_whichever_comes_first(family):
    def program(a, first, second):
        view, given = (first, second) if type(first) is not family else (second, first)
        given["c"] = 5
        before = list(view)
        del given["a"]
        given["a"] = 7
        return a + len(view), before, list(view), [value for value in view], view.mapping is not given

    compiled = framejit.compile(program, backend="eager")
    for kind in ("keys", "values", "items"):
        for turned in (False, True):
            results = []
            for run in (compiled, program):
                given = family(a=1, b=2)
                pair = (given, getattr(given, kind)())
                results.append((run(x, *(pair[::-1] if turned else pair)), list(given.items())))
            (found, left), (expected, expected_left) = results
            assert torch.equal(found[0], expected[0]) and found[1:] == expected[1:] and left == expected_left
    assert (framejit.statistics()["graph_breaks"], framejit.statistics()["fallbacks"]) == (0, 0)


def test_a_view_of_the_attributes_of_an_object():
    holder = SimpleNamespace(scale=2.0)
    holder.values = vars(holder).values()

    @framejit.compile(backend="eager")
    def step(a, scale):
        holder.scale = scale
        return a * next(iter(holder.values))

    for scale in (3.0, 4.0, 5.0):
        assert torch.equal(step(x, scale), x * scale)
    assert framejit.statistics()["graph_breaks"] == 0


def test_a_view_is_the_same_object_and_another_view_is_another():
    given = {"a": 1}
    views = [given.keys(), given.keys()]

    @framejit.compile(backend="eager")
    def step(a, view, other):
        return a + 1, view, view is views[0], other is view, view == other

    result = step(x, *views)
    assert result[1] is views[0] and result[2:] == (True, False, True)
    result = step(x, views[1], views[1])
    assert result[1] is views[1] and result[2:] == (False, True, True)


def test_the_dict_of_a_view_may_be_another_in_the_next_call():
    @framejit.compile(backend="eager")
    def step(a, values):
        return a * sum(values)

    for numbers in ({"a": 1, "b": 2}, {"a": 1, "b": 5}, {"c": 3, "b": 6, "d": 7}, {}):
        assert torch.equal(step(x, numbers.values()), x * sum(numbers.values()))
