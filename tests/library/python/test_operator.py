"""operator: length hints of iterators, and the texts and copies of the getters."""

from __future__ import annotations

import copy
import operator
import pickle
from collections import OrderedDict, deque

import pytest
import torch
from agreement import agree

x = torch.arange(3.0)


def hints_of_fresh_iterators(t):
    made = [iter([1, 2]), iter((1, t)), iter(range(3)), iter({1: 2, 3: t}), iter({1: 2}.items()), iter({1, 2}), iter(deque([1, t])), iter("ab"), iter(b"abc")]
    made += [reversed([1, 2]), reversed({1: 2, 3: 4}), reversed((1, 2, 3)), reversed(range(4)), reversed(deque([1, 2]))]
    before = [operator.length_hint(iterator) for iterator in made]
    for iterator in made:
        next(iterator)
    after = [operator.length_hint(iterator) for iterator in made]
    for iterator in made:
        list(iterator)
    return before, after, [operator.length_hint(iterator) for iterator in made], t


def hints_after_changes(t):
    items, table, elements, ends, backwards = [1, 2, 3], {1: t, 2: t}, {1, 2}, deque([1, 2]), [1, 2, 3]
    made = [iter(items), iter(table), iter(table.values()), iter(elements), iter(ends), reversed(backwards)]
    for iterator in made:
        next(iterator)
    items.append(4)
    table[3] = t
    elements.add(3)
    ends.append(3)
    backwards.clear()
    return [operator.length_hint(iterator) for iterator in made]


def hints_without_an_answer(t):
    ordered = OrderedDict(a=t)
    return operator.length_hint(iter(ordered)), operator.length_hint(iter(ordered), 7), operator.length_hint(3, 2), operator.length_hint(map(len, []))


def getters(t):
    item, two, path, method = operator.itemgetter(1), operator.itemgetter(0, "a"), operator.attrgetter("a", "b.c"), operator.methodcaller("get", 1, default=2)
    return [repr(getter) for getter in (item, two, path, method, operator.methodcaller("keys"))], item([1, t])


def copies_of_getters(t):
    item, path, method = operator.itemgetter(1), operator.attrgetter("real"), operator.methodcaller("split", ",", maxsplit=1)
    copied = [copy.copy(item)([1, t]), copy.deepcopy(path)(3), copy.copy(method)("a,b,c"), pickle.loads(pickle.dumps(operator.methodcaller("upper")))("a")]
    return copied, [getter.__reduce__() for getter in (item, path, operator.methodcaller("upper"))], method.__reduce__()[1]


PROGRAMS = [hints_of_fresh_iterators, hints_after_changes, hints_without_an_answer, getters, copies_of_getters]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_functions_of_operator_agree_with_eager(program):
    agree(program, x)
