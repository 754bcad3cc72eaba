"""Unhashable values used as keys of dicts and elements of sets raise the error that the running Python raises."""

from collections import Counter, OrderedDict, defaultdict
from functools import lru_cache
from types import MappingProxyType

import pytest

import framejit


class Equal:
    """A class that defines == has no hash."""

    def __eq__(self, other):
        return self is other


def stored(mapping, key):
    mapping[key] = 1


def deleted(mapping, key):
    del mapping[key]


USES = {
    "hash": lambda d, s, b: hash(b),
    "hash of a tuple": lambda d, s, b: hash((b,)),
    "d[b]": lambda d, s, b: d[b],
    "d[b] = 1": lambda d, s, b: stored(d, b),
    "del d[b]": lambda d, s, b: deleted(d, b),
    "get": lambda d, s, b: d.get(b),
    "pop": lambda d, s, b: d.pop(b, 1),
    "setdefault": lambda d, s, b: d.setdefault(b, 1),
    "in a dict": lambda d, s, b: b in d,
    "dict display": lambda d, s, b: {b: 1},
    "dict comprehension": lambda d, s, b: {k: 1 for k in [b]},
    "fromkeys": lambda d, s, b: dict.fromkeys([b]),
    "dict of pairs": lambda d, s, b: dict([(b, 1)]),
    "update": lambda d, s, b: d.update([(b, 1)]),
    "in keys": lambda d, s, b: b in d.keys(),
    "in items": lambda d, s, b: (b, 1) in d.items(),
    "keys &": lambda d, s, b: d.keys() & [b],
    "keys |": lambda d, s, b: d.keys() | [b],
    "keys -": lambda d, s, b: d.keys() - [b],
    "keys.isdisjoint": lambda d, s, b: d.keys().isdisjoint([b]),
    "defaultdict": lambda d, s, b: defaultdict(int)[b],
    "OrderedDict[b]": lambda d, s, b: OrderedDict(d)[b],
    "OrderedDict[b] = 1": lambda d, s, b: stored(OrderedDict(d), b),
    "OrderedDict.get": lambda d, s, b: OrderedDict(d).get(b),
    "OrderedDict.pop": lambda d, s, b: OrderedDict(d).pop(b),
    "OrderedDict.setdefault": lambda d, s, b: OrderedDict(d).setdefault(b),
    "del OrderedDict[b]": lambda d, s, b: deleted(OrderedDict(d), b),
    "mappingproxy": lambda d, s, b: MappingProxyType(d)[b],
    "Counter": lambda d, s, b: Counter([b]),
    "lru_cache": lambda d, s, b: lru_cache(lambda x: x)(b),
    "set display": lambda d, s, b: {b},
    "set comprehension": lambda d, s, b: {k for k in [b]},
    "add": lambda d, s, b: s.add(b),
    "discard": lambda d, s, b: s.discard(b),
    "remove": lambda d, s, b: s.remove(b),
    "in a set": lambda d, s, b: b in s,
    "set": lambda d, s, b: set([b]),
    "frozenset": lambda d, s, b: frozenset([b]),
    "set.update": lambda d, s, b: s.update([b]),
    "union": lambda d, s, b: s.union([b]),
    "intersection": lambda d, s, b: s.intersection([b]),
    "intersection_update": lambda d, s, b: s.intersection_update([b]),
    "difference": lambda d, s, b: s.difference([b]),
    "difference_update": lambda d, s, b: s.difference_update([b]),
    "symmetric_difference": lambda d, s, b: s.symmetric_difference([b]),
    "symmetric_difference_update": lambda d, s, b: s.symmetric_difference_update([b]),
    "set.isdisjoint": lambda d, s, b: s.isdisjoint([b]),
    "issubset": lambda d, s, b: s.issubset([b]),
    "issuperset": lambda d, s, b: s.issuperset([b]),
}
VALUES = {"a list": lambda: [1], "a tuple with a list": lambda: (1, [1]), "a dict": lambda: {1: 2}, "a set": lambda: {1}, "an instance": Equal}


def texts(use, make):
    def program():
        try:
            use({1: 2}, {1}, make())
        except (TypeError, KeyError) as error:
            return type(error), str(error), error.__context__, error.__cause__
        return "no error"

    return program


@pytest.mark.parametrize("make", VALUES.values(), ids=list(VALUES))
@pytest.mark.parametrize("use", USES.values(), ids=list(USES))
def test_the_error_says_what_eager_says(use, make):
    program = texts(use, make)
    assert framejit.compile(program, backend="eager")() == program()


def test_the_error_is_raised_in_the_trace():
    with framejit.error_on_graph_break(True):
        for use in ("d[b]", "in a dict", "set display", "add", "union", "hash"):
            program = texts(USES[use], lambda: [1])
            assert framejit.compile(program, backend="eager")() == program()


def test_an_item_that_is_not_a_pair():
    def program(make):
        try:
            make()
        except TypeError as error:
            return str(error), getattr(error, "__notes__", None)

    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for make in (lambda: dict([(1, 2), 3]), lambda: {}.update([1])):
        assert compiled(make) == program(make)


def test_a_method_of_a_tuple_that_is_an_object_of_the_program():
    """Finding out how a tuple hashes runs no code of the program's objects."""

    class Method:
        __hash__ = None

        def __call__(self, *args):
            return True

    class Named(tuple):
        __eq__ = Method()
        __hash__ = tuple.__hash__

    def program(key):
        return {key: 1}[key]

    assert framejit.compile(program, backend="eager")(Named((1, 2))) == 1
