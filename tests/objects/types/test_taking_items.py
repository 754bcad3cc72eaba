"""Consumers use each item of an iterator before they ask for the next one, which matters if both run the program's code or change tensors."""

from __future__ import annotations

import collections
import functools
import itertools
import math
import operator
from collections import OrderedDict, deque
from typing import Any

import pytest
import torch
from agreement import agree

import framejit

x = torch.ones(2)


class Item:
    """Notes in a log what is done with it."""

    def __init__(self, log, value):
        self.log, self.value = log, value

    def note(self, what):
        self.log.append((what, self.value))

    def __add__(self, other):
        self.note("add")
        return Item(self.log, self.value + getattr(other, "value", other))

    def __radd__(self, other):
        self.note("radd")
        return Item(self.log, other + self.value)

    def __mul__(self, other):
        self.note("mul")
        return Item(self.log, self.value * getattr(other, "value", other))

    __rmul__ = __mul__

    def __eq__(self, other):
        self.note("eq")
        return self.value == getattr(other, "value", other)

    def __lt__(self, other):
        self.note("lt")
        return self.value < other.value

    def __gt__(self, other):
        self.note("gt")
        return self.value > other.value

    def __bool__(self):
        self.note("bool")
        return bool(self.value)

    def __iter__(self):
        self.note("iter")
        yield self.value
        yield -self.value


class Key(Item):
    """An Item that can be hashed, and notes when it is."""

    def __hash__(self):
        self.note("hash")
        return hash(self.value)


def items(log, count=3, stop=None, make=Item):
    for i in range(count):
        log.append(i)
        if i == stop:
            raise KeyError(i)
        yield make(log, i)
    log.append("end")


def numbers(log, count=3):
    for i in range(count):
        log.append(i)
        yield i
    log.append("end")


def tensors(t):
    yield t
    t.add_(1)
    yield t
    t.mul_(2)
    yield t


def kept(log, fill, made):
    """Return the length of a container after an iterator that it is filled from has raised half-way."""
    try:
        fill(made, items(log, 3, 2))
    except KeyError:
        log.append("raised")
    return len(made)


def counts(made, take):
    """Return the lengths that an iterator sees of the container which takes its items."""

    def sizes():
        for _ in range(3):
            yield len(made)

    take(sizes())
    return list(made)


PROGRAMS: dict[str, Any] = {
    "sum": lambda log, t: sum(items(log), Item(log, 5)).value,
    "sum from 0": lambda log, t: sum(items(log)).value,
    "sum of tensors": lambda log, t: sum(tensors(t), t * 1),
    "sum of numbers and tensors": lambda log, t: sum(v for v in (1, 2.5, True, t, 3)),
    "sum of numbers": lambda log, t: (sum(numbers(log)), sum(numbers(log), 0.5), sum([0.1] * 10), sum([])),
    "max with a key": lambda log, t: max(items(log), key=lambda item: log.append("key") or -item.value).value,
    "max": lambda log, t: max(items(log)).value,
    "min": lambda log, t: min(items(log)).value,
    "min of none": lambda log, t: (min(items(log, 0), default="none"), max((), default=None)),
    "any": lambda log, t: any(items(log)),
    "all": lambda log, t: all(items(log)),
    "in": lambda log, t: (1 in items(log), Item(log, 1) in items(log)),
    "math.prod": lambda log, t: math.prod(items(log)).value,
    "math.prod of tensors": lambda log, t: math.prod(tensors(t)),
    "operator.countOf": lambda log, t: operator.countOf(items(log), 1),
    "operator.indexOf": lambda log, t: operator.indexOf(items(log), 1),
    "functools.reduce": lambda log, t: functools.reduce(operator.add, items(log)).value,
    "functools.reduce of tensors": lambda log, t: functools.reduce(lambda a, b: a * 2 + b, tensors(t), t * 1),
    "itertools.accumulate": lambda log, t: [item.value for item in itertools.accumulate(items(log))],
    "zip": lambda log, t: [(a.value, b.value) for a, b in zip(items(log, 2), items(log, 3))],
    "sorted": lambda log, t: [item.value for item in sorted(items(log), key=lambda item: log.append("key") or -item.value)],
    "str.join": lambda log, t: ",".join(str(n) for n in numbers(log)),
    "star": lambda log, t: len([*items(log), *items(log, 1)]),
    "list.extend that raises": lambda log, t: kept(log, list.extend, []),
    "deque.extend that raises": lambda log, t: kept(log, deque.extend, deque()),
    "deque.extendleft that raises": lambda log, t: kept(log, deque.extendleft, deque()),
    "set.update that raises": lambda log, t: kept(log, lambda made, taken: made.update(item.value for item in taken), set()),
    "difference_update": lambda log, t: kept(log, lambda made, taken: made.difference_update(item.value for item in taken), {0, 5}),
    "intersection_update": lambda log, t: kept(log, lambda made, taken: made.intersection_update(item.value for item in taken), {0, 5}),
    "dict.update that raises": lambda log, t: kept(log, lambda made, taken: made.update((item.value, 1) for item in taken), {}),
    "OrderedDict.update": lambda log, t: kept(log, lambda made, taken: made.update((item.value, 1) for item in taken), OrderedDict()),
    "what list.extend shows": lambda log, t: counts(made := [], made.extend),
    "what deque.extend shows": lambda log, t: counts(made := deque(), made.extend),
    "what deque.extendleft shows": lambda log, t: counts(made := deque([7], 2), made.extendleft),
    "deque": lambda log, t: (list(deque(numbers(log), 2)), list(deque([1, 2, 3], 2)), len(deque(items(log)))),
    "a deque and itself": lambda log, t: list((made := deque([1, 2])).extend(made) or made),
    "dict of pairs": lambda log, t: dict(items(log)),
    "dict of keys": lambda log, t: len(dict((item, 1) for item in items(log, make=Key))),
    "dict.fromkeys": lambda log, t: len(dict.fromkeys(items(log, make=Key))),
    "OrderedDict": lambda log, t: len(OrderedDict((item, 1) for item in items(log, make=Key))),
    "set": lambda log, t: len(set(items(log, make=Key))),
    "set display": lambda log, t: len({*items(log, make=Key), *items(log, make=Key)}),
    "issuperset": lambda log, t: ({1, 2}.issuperset(numbers(log)), {0, 1, 2}.issuperset(numbers(log)), set().issuperset(numbers(log))),
    "isdisjoint": lambda log, t: ({1, 2}.isdisjoint(numbers(log)), {7}.isdisjoint(numbers(log)), set().isdisjoint(numbers(log))),
    "intersection": lambda log, t: ({0, 1}.intersection(numbers(log)), set().intersection(numbers(log)), {1}.intersection([True])),
    "intersection of sets": lambda log, t: ({1, 2} & {True}, {1} & {True, 2}, {1} & {True}, {True: 0}.keys() & {1}),
    "union": lambda log, t: ({1, 2}.union(numbers(log)), {1, 2}.difference(numbers(log)), {1, 2}.symmetric_difference(numbers(log))),
    "Counter": lambda log, t: sorted(collections.Counter(n % 2 for n in numbers(log)).items()),
    "too many to unpack": lambda log, t: unpacked(items(log, 5)),
    "too few to unpack": lambda log, t: unpacked(items(log, 1)),
    "without end": lambda log, t: unpacked(itertools.count()),
    "starred": lambda log, t: with_rest(items(log, 4)),
    "starred, too few": lambda log, t: with_rest(items(log, 1)),
    "starred, raises": lambda log, t: with_rest(items(log, 3, 2)),
    "starred, nothing to go through": lambda log, t: with_rest(5),
    "starred, an iterator that counts its __iter__": lambda log, t: with_rest(Counted(log, 3)),
    "starred, none left": lambda log, t: with_rest(Counted(log, 2)),
}


HASHED = frozenset({"dict of keys", "dict.fromkeys", "OrderedDict", "set", "set display"})
"""Those that break at the program's `__hash__`."""


def unpacked(iterable):
    try:
        a, b = iterable
    except ValueError as error:
        return str(error)


def with_rest(iterable):
    try:
        a, *b, c = iterable
    except (TypeError, ValueError) as error:
        return str(error)
    return len(b), [getattr(item, "value", item) for item in (a, *b, c)]


class Counted:
    """An iterator that notes what it is asked."""

    def __init__(self, log, count):
        self.log, self.left = log, count

    def __iter__(self):
        self.log.append("iter")
        return self

    def __length_hint__(self):
        self.log.append("hint")
        return 1

    def __next__(self):
        self.log.append("next")
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left


@pytest.mark.parametrize("name", PROGRAMS)
def test_items_are_taken_one_by_one(name):
    program = PROGRAMS[name]

    def run(t):
        log: list[Any] = []
        return program(log, t), log

    agree(run, x, fullgraph=name not in HASHED)


def test_an_ordered_dict_with_objects_as_keys_keeps_its_order():
    class Name:
        pass

    def program(t, names):
        return [t * n for n in names.values()], [name is first for name in names]

    compiled = framejit.compile(program, backend="eager")
    first, second = Name(), Name()
    moved = OrderedDict([(first, 1), (second, 2)])
    moved.move_to_end(first)
    for names in (moved, OrderedDict([(first, 1), (second, 2)]), OrderedDict([(second, 1), (first, 2)])):
        values, at = compiled(x, names)
        assert [value[0].item() for value in values] == list(names.values()) and at == [name is first for name in names]


def test_looking_at_a_dict_hashes_none_of_its_keys():
    hashed = []

    class Name:
        def __hash__(self):
            hashed.append(self)
            return 1

    compiled = framejit.compile(lambda t, names: (t + len(names), list(names.values())), backend="eager")
    names = {Name(): 1}
    hashed.clear()
    assert compiled(x, names)[1] == [1] and not hashed
