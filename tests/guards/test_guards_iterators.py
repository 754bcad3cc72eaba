"""Iterators peeked at: the C++ accessors against their Python reference and against the iterators themselves."""

from __future__ import annotations

import copy
import gc
import itertools
import weakref
from collections import OrderedDict
from typing import Any

import pytest
from guarding import HERE, LyingDict, LyingList, agrees, call_of, matched, slot
from handmade import run_python
from hypothesis import given, settings
from hypothesis import strategies as st

from framejit._runtime import ITERATOR_FIELDS, Unset, iterator_field, set_iterator_fields
from framejit.guards.build import build
from framejit.guards.container_sources import IteratorField, IteratorItem
from framejit.guards.iterators import LIST_REVERSE_ITERATOR, upcoming
from framejit.guards.kinds import Equals, IsMissing, IsPresent
from framejit.guards.source import MISSING, Root

FIELDS = ("sequence", "intact", "position", *(name for names in ITERATOR_FIELDS.values() for name in names))


def look(iterator: Any, kind: Any, payload: Any) -> Any:
    """Return the value that the reference reads from the iterator, having checked that the native accessor reads the same."""
    source = slot(Root()).child(kind, payload)
    expected = source.fetch(call_of(iterator))
    found = matched(build([], [source], []), iterator)
    assert (found is None) == (expected is MISSING), (iterator, payload, expected)
    assert found is None or found[0] is expected or (type(found[0]) is type(expected) and found[0] == expected)
    assert agrees(build([IsMissing(source, HERE)], [], []), iterator) == (expected is MISSING)
    assert agrees(build([IsPresent(source, HERE)], [], []), iterator) == (expected is not MISSING)
    return expected


class Name(str):
    """A user's string."""

    def __getitem__(self, key: Any) -> Any:
        raise AssertionError("the user's Python ran")


items = st.lists(st.one_of(st.integers(-(2**70), 2**70), st.text(max_size=1), st.none()), max_size=5)
views = st.sampled_from((dict.keys, dict.values, dict.items))
dicts = st.one_of(
    st.dictionaries(st.integers(0, 9), st.text(max_size=2), max_size=5),
    st.dictionaries(st.text(max_size=1), st.integers(), max_size=5).map(LyingDict),
    st.dictionaries(st.text(max_size=1), st.integers(), max_size=5).map(OrderedDict),
)
words = st.one_of(st.text(max_size=4), st.text("é€𝄞", max_size=3), st.binary(max_size=3), st.text(max_size=3).map(Name))
numbers = st.integers(-40, 40)
simple = st.one_of(
    items.map(iter),
    items.map(reversed),
    items.map(LyingList).map(list.__iter__),
    items.map(tuple).map(iter),
    items.map(tuple).map(reversed),
    words.map(lambda word: (bytes if isinstance(word, bytes) else str).__iter__(word)),
    st.builds(lambda a, b, c: iter(range(a, b, c or 1)), numbers, numbers, numbers),
    st.builds(lambda a, c: iter(range(2**58 * a, 2**61, 2**59 * c)), st.integers(-9, 9), st.integers(1, 5)),
    st.builds(lambda d, view: iter(view(d)), dicts, views),
    st.builds(lambda d, view: reversed(view(d)), dicts.filter(lambda d: type(d) is dict), views),
)
composite = st.one_of(
    st.builds(enumerate, simple, st.one_of(st.integers(0, 5), st.sampled_from((2**63 - 1, 2**63 - 2, 2**80, -1)))),
    st.builds(lambda parts, strict: zip(*parts, strict=strict), st.lists(simple, max_size=3), st.booleans()),
)


@given(simple, st.integers(0, 6))
@settings(deadline=None, max_examples=300)
def test_what_is_ahead(iterator: Any, taken: int) -> None:
    for _ in range(taken):
        next(iterator, None)
    expected = list(upcoming(iterator))
    assert list(upcoming(iterator)) == expected, "the reference has moved the iterator"
    for ahead in range(len(expected) + 2):
        found = look(iterator, IteratorItem, ahead)
        assert found == expected[ahead] if ahead < len(expected) else found is MISSING
    for name in FIELDS:
        look(iterator, IteratorField, name)
    assert list(iterator) == expected
    assert look(iterator, IteratorItem, 0) is MISSING
    ended = look(iterator, IteratorField, "sequence")
    assert ended is MISSING or type(iterator) is LIST_REVERSE_ITERATOR  # which keeps its list from Python 3.13 on


@given(composite, st.integers(0, 3))
@settings(deadline=None)
def test_what_is_inside(iterator: Any, taken: int) -> None:
    for _ in range(taken):
        try:
            next(iterator, None)
        except ValueError:
            break
    for name in FIELDS:
        look(iterator, IteratorField, name)
    assert look(iterator, IteratorItem, 0) is MISSING


@given(st.lists(st.integers(), min_size=2, max_size=6), st.integers(0, 3), st.integers(0, 8), st.booleans())
@settings(deadline=None)
def test_lists_that_change(values: list[int], taken: int, length: int, backwards: bool) -> None:
    iterator = reversed(values) if backwards else iter(values)
    for _ in range(taken):
        next(iterator, None)
    values[:] = list(range(length))
    for ahead in range(9):
        look(iterator, IteratorItem, ahead)
    assert look(iterator, IteratorField, "sequence") in (values, MISSING)
    expected = list(upcoming(iterator))
    assert list(iterator) == expected


@pytest.mark.parametrize("view", [dict.keys, dict.values, dict.items])
@pytest.mark.parametrize("make", [iter, reversed])
def test_dicts_that_change(make: Any, view: Any) -> None:
    mapping = {"a": [1], "b": [2], "c": [3], "d": [4]}
    iterator = make(view(mapping))
    next(iterator)
    guard = build([Equals(slot(Root()).child(IteratorField, "intact"), HERE, True)], [], [])
    assert agrees(guard, iterator)
    mapping["b"] = [5]
    assert look(iterator, IteratorItem, 1) == list(upcoming(iterator))[1]
    mapping["e"] = [6]
    assert not agrees(guard, iterator) and look(iterator, IteratorItem, 0) is MISSING
    del mapping["e"]
    assert agrees(guard, iterator)
    del mapping["b"], mapping["c"]
    with pytest.raises(RuntimeError):
        next(iterator)
    mapping.update(b=1, c=2)
    assert not agrees(guard, iterator), "an iterator that has raised stays broken"
    holes = {i: i for i in range(9)}
    for i in (1, 2, 5, 8):
        del holes[i]
    holes_iterator = make(view(holes))
    for ahead in range(6):
        look(holes_iterator, IteratorItem, ahead)
    assert list(upcoming(holes_iterator)) == list(make(view(holes)))


def test_instance_dicts() -> None:
    """Dicts that share their keys with other instances'."""

    class Plain:
        def __init__(self) -> None:
            self.a, self.b, self.c = 1, 2, 3

    one, two = Plain(), Plain()
    del two.b
    two.b = 9
    for obj in (one, two):
        for view in (dict.keys, dict.values, dict.items):
            for make in (iter, reversed):
                iterator = make(view(obj.__dict__))
                for ahead in range(4):
                    look(iterator, IteratorItem, ahead)
                assert list(upcoming(iterator)) == list(iterator)


def test_other_iterators_show_nothing() -> None:
    class Counting(enumerate):  # type: ignore[type-arg]
        pass

    class Sequence:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, key: int) -> int:
            raise AssertionError("the user's Python ran")

    for value in (Counting([1]), reversed(Sequence()), iter({1}), iter(range(1 << 70)), map(str, [1]), iter(int, 1), [1], copy):
        assert look(value, IteratorItem, 0) is MISSING
        for name in ("intact", "enumerate.count", "zip.strict", "islice.it"):
            assert look(value, IteratorField, name) is MISSING
        assert look(value, IteratorField, "position") == 1 if type(value) is reversed else look(value, IteratorField, "position") is MISSING


class Token:
    """An object that an iterator holds. Tests wait for its end with a weak reference."""


FIELD_EXAMPLES = {
    "enumerate": lambda token: enumerate([token], 2**63 - 1),
    "zip": lambda token: zip([token], [token], strict=True),
    "chain": lambda token: itertools.chain([token], [1, 2]),
    "count": lambda token: itertools.count(5),
    "cycle": lambda token: itertools.cycle([token, token]),
    "islice": lambda token: itertools.islice([token] * 9, 1, None, 2),
    "pairwise": lambda token: itertools.pairwise([token] * 3),
    "repeat": lambda token: itertools.repeat(token, 3),
    "takewhile": lambda token: itertools.takewhile(lambda item: True, [token, 2, 3]),
    "accumulate": lambda token: itertools.accumulate([1, 2, 3], max, initial=0),
    "zip_longest": lambda token: itertools.zip_longest([token], [1, 2, 3], ()),
}


@pytest.mark.parametrize("name", FIELD_EXAMPLES)
@pytest.mark.parametrize("taken", [0, 1, 2])
def test_an_iterator_takes_over_the_fields_of_another(name: str, taken: int) -> None:
    """An iterator that is given the fields of another one gives the same items, and keeps nothing alive that neither of them holds."""

    def moved(token: Any) -> tuple[list[Any], list[Any]]:
        first, second = FIELD_EXAMPLES[name](token), FIELD_EXAMPLES[name](token)
        for _ in range(taken):
            next(first, None)
        names = ITERATOR_FIELDS[type(first)]
        values = tuple(iterator_field(first, field) for field in names)
        assert set_iterator_fields(second, names, values) is second
        expected = FIELD_EXAMPLES[name](token)
        list(itertools.islice(expected, taken))
        return list(itertools.islice(second, 5)), list(itertools.islice(expected, 5))

    token = Token()
    found, expected = moved(token)
    assert found == expected
    del found, expected
    seen = weakref.ref(token)
    del token
    gc.collect()
    assert seen() is None


def test_fields_of_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="has no field 'islice.it'"):
        set_iterator_fields(itertools.count(), ("islice.it",), (Unset,))
    with pytest.raises(ValueError, match="no iterator has a field 'it'"):
        iterator_field(itertools.count(), "it")


@pytest.mark.slow
def test_under_the_debug_allocator() -> None:
    """Reference counts of what is peeked at, and nothing read past an end."""
    program = """
import sys
import torch
from framejit._runtime import ITERATOR_FIELDS
from framejit.guards.build import build
from framejit.guards.kinds import IsPresent
from framejit.guards.container_sources import IteratorField, IteratorItem
from framejit.guards.source import Local, Root, Slot
marker = object()
makers = [lambda: iter([marker] * 4), lambda: reversed([marker] * 4), lambda: iter((marker,) * 4), lambda: iter({1: marker}.items()),
          lambda: reversed({1: marker}.values()), lambda: iter(range(10**12, 10**13, 10**12)), lambda: iter("\\u20ac" * 3), lambda: iter(b"abc"),
          lambda: enumerate([marker], 10**30), lambda: zip([marker], [marker], strict=True)]
for make in makers:
    root = Root()
    slot = root.child(Local, Slot(0, "x"))
    names = ["sequence", "intact", "position", *(name for names in ITERATOR_FIELDS.values() for name in names)]
    payloads = [(IteratorItem, k) for k in range(6)] + [(IteratorField, name) for name in names]
    sources = [slot.child(*payload) for payload in payloads]
    trees = [build([], [source], []).tree for source in sources] + [build([IsPresent(source, None)], [], []).tree for source in sources]
    iterator = make()
    while True:
        before = sys.getrefcount(marker)
        for tree in trees * 3:
            tree.match((iterator,), build)
        assert sys.getrefcount(marker) == before
        if next(iterator, makers) is makers:
            break
print("fine")
"""
    assert run_python(program, PYTHONMALLOC="debug").strip().endswith("fine")
