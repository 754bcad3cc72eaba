"""functools.singledispatch in compiled functions: the implementation for a class, of classes that are registered later, and by abstract classes."""

from __future__ import annotations

import collections.abc
import functools
import weakref

import torch

import framejit


def generic():
    @functools.singledispatch
    def weight(value, factor=1):
        return 0.5 * factor

    weight.register(int, lambda value, factor=1: value * factor)
    weight.register(torch.Tensor, lambda value, factor=1: value.sum() * factor)
    weight.register(collections.abc.Sized, lambda value, factor=1: len(value) + factor)

    @weight.register
    def of_lists(value: list, factor=1):
        return sum(weight(item) for item in value)

    return weight


class Base:
    pass


class Derived(Base):
    pass


class Methods:
    @functools.singledispatchmethod
    def scale(self, value):
        return -1

    @scale.register
    def _(self, value: int):
        return value + 1

    @scale.register
    def _(self, value: torch.Tensor):
        return value * 2


def test_implementations_are_found_by_the_class():
    weight = generic()

    def program(x, value):
        return x * weight(value) + weight(x, factor=2), weight.dispatch(type(value)) is weight.registry.get(type(value))

    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for value in (True, 2.5, "text", [1, "ab", [2]], {}, Derived(), torch.nn.Parameter(torch.ones(2)), None):
        expected, found = program(torch.ones(2), value), compiled(torch.ones(2), value)
        assert torch.equal(found[0], expected[0]) and found[1] == expected[1]


def test_what_is_registered_later_is_found():
    weight = generic()

    def program(x, value):
        return x + weight(value)

    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)

    def assert_same():
        assert torch.equal(compiled(torch.ones(2), Derived()), program(torch.ones(2), Derived()))

    assert_same()
    for cls, result in ((Base, 2), (Derived, 3), (Derived, 4)):
        weight.register(cls, lambda value, factor=1, result=result: result)
        assert_same()
    graphs = framejit.statistics()["graphs"]
    weight.register(bytes, lambda value, factor=1: 5)
    assert_same()
    assert framejit.statistics()["graphs"] == graphs


def test_a_class_that_is_registered_with_an_abstract_class():
    weight = generic()

    class Late:
        def __bool__(self):
            return True

    class Abstract(collections.abc.Hashable):
        pass

    weight.register(Abstract, lambda value, factor=1: 7)

    def program(x, value):
        return x + weight(value)

    compiled, late = framejit.compile(program, backend="eager", fullgraph=True), Late()
    assert torch.equal(compiled(torch.ones(2), late), torch.full((2,), 1.5))
    Abstract.register(Late)
    assert torch.equal(compiled(torch.ones(2), late), program(torch.ones(2), late)) and weight(late) == 7


def test_methods_and_functions_that_the_compiled_function_makes():
    methods = Methods()

    def program(x):
        weight = generic()
        return methods.scale(x) + methods.scale(2) + methods.scale("a") + weight(x) + weight(3)

    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2)), program(torch.ones(2)))


def test_a_cache_that_the_program_has_put_in_place_of_the_usual_one(monkeypatch):
    asked = []

    class Asked(dict):
        def __getitem__(self, cls):
            asked.append(cls)
            return super().__getitem__(cls)

    monkeypatch.setattr(weakref, "WeakKeyDictionary", Asked)
    weight = generic()

    def program(x):
        return x * weight(2) + weight(3)

    found = framejit.compile(program, backend="eager")(torch.ones(2))
    calls = asked.copy()
    weight._clear_cache()
    asked.clear()
    assert torch.equal(found, program(torch.ones(2))) and calls == asked == [int, int]
