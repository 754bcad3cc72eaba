"""Special methods: lookups that raise, what they may return, and what iterators of classes return to generators that delegate to them."""

from __future__ import annotations

import operator
import sys

import pytest
import torch
from agreement import agree_over_calls, tried

import framejit


def fails(self):
    raise AttributeError("no such method")


class Getter:
    def __get__(self, instance, owner):
        raise ValueError("no")


class Properties:
    __eq__ = property(fails)
    __lt__ = property(fails)
    __hash__ = property(fails)
    __iter__ = property(fails)
    __repr__ = property(fails)
    __len__ = property(fails)

    def __getitem__(self, index):
        if index > 2:
            raise IndexError
        return index


class Getters:
    __eq__ = Getter()
    __lt__ = Getter()
    __hash__ = Getter()
    __iter__ = Getter()
    __repr__ = Getter()
    __bool__ = Getter()
    __add__ = Getter()


LOOKUPS = {
    "==": lambda made: made == made,
    "== of two": lambda made: made == type(made)(),
    "==, reflected": lambda made: 1 == made,
    "!=": lambda made: made != type(made)(),
    "<": lambda made: made < type(made)(),
    "hash": hash,
    "key": lambda made: {made: 1},
    "list": list,
    "unpacking": lambda made: [*made],
    "repr": lambda made: repr(made).partition(" at ")[0],
    "format": lambda made: f"{made!r}".partition(" at ")[0],
    "bool": bool,
    "len": len,
    "+": lambda made: made + 1,
}


@pytest.mark.parametrize("made", [Properties, Getters])
@pytest.mark.parametrize("name", LOOKUPS)
def test_a_special_method_whose_lookup_raises(name, made):
    look = LOOKUPS[name]

    def function(x):
        return x + 1, tried(look, made())

    expected = function(torch.zeros(2))
    tensor, found = framejit.compile(function, backend="eager")(torch.zeros(2))
    assert found == expected[1]
    assert torch.equal(tensor, expected[0])


class Returns:
    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration(42)


class ReturnsLater(Returns):
    def __init__(self):
        self.left = 2

    def __next__(self):
        self.left -= 1
        if self.left < 0:
            raise StopIteration({"end": 43})
        return self.left


@pytest.mark.parametrize("kind", [Returns, ReturnsLater])
def test_yield_from_gives_the_value_of_a_classes_stop_iteration(kind):
    def function(x):
        def generate():
            found = yield from kind()
            yield found

        return x + 1, list(generate())

    assert framejit.compile(function, backend="eager")(torch.zeros(2))[1] == function(torch.zeros(2))[1]


def test_closing_a_generator_whose_iterator_raises_where_its_close_is_looked_up():
    class Broken:
        def __iter__(self):
            return self

        def __next__(self):
            return 1

        def __getattr__(self, name):
            return 1 / 0

    def function(x):
        def generate():
            yield from Broken()

        generator = generate()
        found = [next(generator)]
        generator.close()
        return x + 1, found, list(generator)

    unraisable = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda given: unraisable.append(given.exc_type)
    try:
        expected = function(torch.zeros(2))[1:]
        assert framejit.compile(function, backend="eager")(torch.zeros(2))[1:] == expected
    finally:
        sys.unraisablehook = hook
    assert unraisable == [ZeroDivisionError, ZeroDivisionError]


def test_a_metaclass_with_a_module_of_its_own_is_not_asked_while_tracing():
    def function(x):
        class Meta(type):
            @property
            def __module__(self):
                return 1 / 0

        made = Meta("Made", (), {})
        return x + 1, tried(lambda: str | made())

    assert framejit.compile(function, backend="eager")(torch.zeros(2))[1] == function(torch.zeros(2))[1]


class Sized:
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length


class Odd:
    """An object whose special methods return the value that it was made with, whatever its type."""

    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return self.value

    __int__ = __float__ = __str__ = __repr__ = __iter__ = __hash__

    def __format__(self, spec):
        return self.value


class Refusing:
    __iter__ = None
    __contains__ = None


def test_what_special_methods_may_return():
    def attempt(function, value):
        try:
            return function(value)
        except (TypeError, ValueError, OverflowError) as error:
            return str(error)

    def f(t):
        lengths = [attempt(function, Sized(n)) for n in (0, True, -1, 3, 2**70, "a") for function in (len, bool)]
        operations = (iter, list, lambda value: 1 in value)
        refused = [attempt(function, value) for value in (Refusing(), object()) for function in operations]
        return t + 1, lengths, refused, [attempt(function, Odd(v)) for function, v in texts]

    functions = (hash, int, float, str, repr, iter, list, lambda value: f"{value}")
    # CPython warns of an `__int__` that returns a bool: tests/objects/types/test_exceptions.py has it.
    texts = [(function, v) for v in (0, True, -1, 2**70, "a", None) for function in functions if not (function is int and v is True)]
    agree_over_calls(lambda compile: [compile(f)(torch.ones(2))])


def klass(name, result):
    return type("Klass", (), {name: lambda self, *args: result})()


WRONG_RESULTS = [
    ("__bool__", 5, bool), ("__index__", "a", operator.index), ("__int__", "a", int), ("__float__", "a", float), ("__iter__", 5, iter),
    ("__repr__", 5, repr), ("__str__", 5, str), ("__format__", 5, format), ("__length_hint__", "a", list), ("__length_hint__", -1, list),
    ("__len__", -1, len), ("__bool__", klass("n", 1), bool), ("__iter__", klass("n", 1), list), ("__str__", klass("n", 1), str),
]  # fmt: skip


@pytest.mark.parametrize(("name", "result", "use"), WRONG_RESULTS)
def test_results_of_a_wrong_type(name, result, use):
    def function(x):
        return x + 1, tried(use, made)

    made = klass(name, result)
    assert framejit.compile(function, backend="eager")(torch.zeros(2))[1] == function(torch.zeros(2))[1]
