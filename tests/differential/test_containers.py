"""Random sequences of operations on containers from outside: results, exceptions, contents and order are eager's."""

from __future__ import annotations

import enum
import operator
from collections import OrderedDict, defaultdict, deque

import numpy as np
import pytest
import torch
from agreement import agree
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

x = torch.ones(2)
small = st.integers(-3, 5)
keys = st.sampled_from(["a", "b", "c", 1, 2.0, True, None, (1, "a")])
quick = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


class KindOfInt(int):
    pass


class KindOfText(str):
    pass


class EvasiveInt(int):
    def __eq__(self, other):
        return NotImplemented

    def __add__(self, other):
        return NotImplemented

    def __rmul__(self, other):
        return "rmul"

    __hash__ = int.__hash__


class EvasiveList(list):
    def __radd__(self, other):
        return "radd"

    def __lt__(self, other):
        return NotImplemented


class Level(enum.IntEnum):
    LOW = 1


of_many_types = st.sampled_from([1, True, 1.0, KindOfInt(1), Level.LOW, np.int64(1), EvasiveInt(1), "a", KindOfText("a"), 2])
operands = st.one_of(of_many_types, st.sampled_from([EvasiveList([1]), [1], (1,), "ab", b"a", None, 2.5, 1j, EvasiveInt(2)]))
binary = st.sampled_from([
    operator.add, operator.mul, operator.sub, operator.mod, operator.eq, operator.ne, operator.lt, operator.ge, operator.or_, operator.iadd,
    operator.imul, operator.contains, operator.getitem, divmod, pow, max,
])  # fmt: skip


def attempt(function, *args, **kwargs):
    """The outcome as the traced program sees it."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, list(error.args)


def on_list(t, items, operations):
    seen = []
    for name, *args in operations:
        if name == "set":
            seen.append(attempt(items.__setitem__, *args))
        elif name == "del":
            seen.append(attempt(items.__delitem__, *args))
        elif name == "slice":
            a, b, c = args
            seen.append(attempt(lambda a=a, b=b, c=c: items[a:b:c]))
        elif name == "assign":
            a, b, values = args
            items[a:b] = values
        elif name == "erase":
            a, b = args
            del items[a:b]
        elif name == "iterate":
            for item in items:
                if len(items) < args[0]:
                    items.append(item)
        elif name == "tensor":
            items.append(t + args[0])
            items.pop()
        else:
            seen.append(attempt(getattr(items, name), *args))
        seen.append(len(items))
    return seen, t


def on_dict(t, d, operations):
    seen = []
    for name, *args in operations:
        if name == "set":
            d[args[0]] = args[1]
        elif name == "del":
            seen.append(attempt(d.__delitem__, *args))
        elif name == "get":
            seen.append(attempt(lambda k=args[0]: d[k]))
        elif name == "in":
            seen.append(args[0] in d)
        elif name == "items":
            seen.append(list(d.items()))
        elif name == "merge":
            d |= {args[0]: args[1]}
        elif name == "rename":
            for key in d:
                if key == args[0]:
                    d[key] = args[1]
        else:
            seen.append(attempt(getattr(d, name), *args))
    return seen, t


def on_set(t, s, operations):
    seen = []
    for name, *args in operations:
        if name == "in":
            seen.append(args[0] in s)
        elif name in ("update", "intersection_update", "difference_update", "symmetric_difference_update", "union", "issubset"):
            seen.append(attempt(getattr(s, name), set(args)))
        else:
            seen.append(attempt(getattr(s, name), *args))
        seen.append(len(s))
    return seen, sorted(s), t


def operation(name, *arguments):
    return st.tuples(st.just(name), *arguments)


list_operations = st.one_of(
    *(operation(name, small) for name in ("append", "pop", "remove", "index", "count", "del", "iterate", "tensor")),
    *(operation(name, small, small) for name in ("insert", "set", "erase")),
    *(operation(name) for name in ("pop", "reverse", "sort", "copy", "clear")),
    operation("extend", st.tuples(small, small)),
    operation("slice", small, small, st.sampled_from([None, 1, 2, -1, -2])),
    operation("assign", small, small, st.lists(small, max_size=3).map(tuple)),
)


def operations_on_dicts(keys):
    return st.one_of(
        *(operation(name, keys) for name in ("get", "del", "in", "setdefault", "pop")),
        *(operation(name, keys, small) for name in ("set", "setdefault", "merge", "rename")),
        operation("pop", keys, st.none()),
        *(operation(name) for name in ("popitem", "items", "clear", "copy")),
    )


dict_operations = operations_on_dicts(keys)
ordered_operations = st.one_of(
    dict_operations, operation("move_to_end", keys), operation("move_to_end", keys, st.booleans()), operation("popitem", st.booleans())
)
deque_operations = st.one_of(
    *(operation(name, small) for name in ("append", "appendleft", "remove", "index", "count", "rotate")),
    operation("insert", small, small),
    operation("extendleft", st.tuples(small, small)),
    *(operation(name) for name in ("pop", "popleft", "reverse", "clear", "copy")),
)
set_operations = st.one_of(
    *(operation(name, small) for name in ("add", "remove", "discard", "in")),
    *(
        operation(name, small, small)
        for name in ("update", "intersection_update", "difference_update", "symmetric_difference_update", "union", "issubset")
    ),
    operation("copy"),
)


def several(operations):
    return st.lists(operations, min_size=1, max_size=6).map(tuple)


@quick
@given(st.lists(small, max_size=4), several(list_operations))
def test_lists(items, operations):
    agree(on_list, x, items, operations, calls=1)


@quick
@given(st.dictionaries(keys, small, max_size=4), several(dict_operations))
def test_dicts(d, operations):
    agree(on_dict, x, d, operations, calls=1)


@quick
@given(st.dictionaries(of_many_types, small, max_size=4), several(operations_on_dicts(of_many_types)))
def test_dicts_with_keys_of_many_types(d, operations):
    agree(on_dict, x, d, operations, calls=1, fullgraph=False)


def apply_all(t, function, pairs):
    return t + 1, [attempt(function, *pair) for pair in pairs]


@quick
@given(binary, st.lists(st.tuples(operands, operands), min_size=1, max_size=4))
def test_operators_on_operands_of_many_types(function, pairs):
    agree(apply_all, x, function, pairs, calls=1, fullgraph=False)


@quick
@given(st.dictionaries(keys, small, max_size=4), several(ordered_operations))
def test_ordered_dicts(d, operations):
    agree(on_dict, x, OrderedDict(d), operations, calls=1)


@quick
@given(st.dictionaries(keys, small, max_size=3), several(dict_operations))
def test_default_dicts(d, operations):
    agree(on_dict, x, defaultdict(int, d), operations, calls=1)


@quick
@given(st.lists(small, max_size=4), st.one_of(st.none(), st.integers(0, 4)), several(deque_operations))
def test_deques(items, maxlen, operations):
    agree(on_list, x, deque(items, maxlen), operations, calls=1)


@quick
@given(st.sets(small, max_size=4), several(set_operations))
def test_sets(s, operations):
    agree(on_set, x, s, operations, calls=1, fullgraph=False)  # the order of a changed set is asked for natively


class Asked:
    """Iterable; notes what is asked of it."""

    def __init__(self, answer):
        self.seen, self.answer = [], answer

    def __iter__(self):
        self.seen.append("iter")
        return iter([1, 2])


class Sized(Asked):
    def __len__(self):
        self.seen.append("len")
        if isinstance(self.answer, type):
            raise self.answer("no")
        return 2


class Hinted(Asked):
    def __length_hint__(self):
        self.seen.append("hint")
        if isinstance(self.answer, type):
            raise self.answer("no")
        return self.answer


def ask(t, cls, answer):
    consumers = (list, tuple, sorted, set, [].extend, lambda one: [*one], lambda one: max(*one), lambda one: (0, *one), lambda one: {*one})
    asked = [cls(answer) for _ in consumers]
    return t + 1, [attempt(consumer, one) for consumer, one in zip(consumers, asked, strict=True)], [one.seen for one in asked]


@pytest.mark.parametrize("cls", [Sized, Hinted])
@pytest.mark.parametrize("answer", [1, -1, "a", NotImplemented, TypeError, ValueError])
def test_who_asks_for_the_length(cls, answer):
    agree(ask, x, cls, answer)
