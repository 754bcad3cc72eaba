"""functools: copies of partial objects, and the parts that they are made of."""

from __future__ import annotations

import copy
import functools

import pytest
import torch
from agreement import agree

import framejit

x = torch.arange(3.0)


def scaled(t, factor, *rest, offset=0):
    return t * factor + offset, rest


def copies(t):
    bound = functools.partial(scaled, t, 2, offset=1)
    shallow, deep = copy.copy(bound), copy.deepcopy(functools.partial(scaled, factor=[1], offset=2))
    return shallow(3), shallow.keywords is bound.keywords, deep.keywords, deep.func is scaled, deep.args


def parts(t):
    plain, noted = functools.partial(int, "10", base=2), functools.partial(scaled, t)
    noted.note = 1
    return plain.__reduce__(), noted.__reduce__()[2][1:]


@pytest.mark.parametrize("program", [copies, parts], ids=lambda program: program.__name__)
def test_copies_of_partials_agree_with_eager(program):
    agree(program, x)


def test_a_partial_from_outside_is_left_to_native_code():
    agree(lambda t, bound: copy.copy(bound)(t), x, functools.partial(scaled, factor=3), fullgraph=False)
    with pytest.raises(framejit.errors.FramejitError, match="__setstate__"):
        framejit.compile(lambda bound: bound.__setstate__((abs, (), {}, None)), backend="eager", fullgraph=True)(functools.partial(scaled))


class Handler:
    """A context that wraps functions, which may be methods, as probabilistic programs' effect handlers do."""

    def __init__(self, shift):
        self.shift = shift

    def __enter__(self):
        return self.shift

    def __exit__(self, *exception):
        return None

    def __call__(self, function):
        return BoundPartial(functools.partial(within, self, function))


class BoundPartial(functools.partial):
    """A partial with a slot that has the name of one of its fields: the field is what remains of the function when partial has unpacked it."""

    __slots__ = "func"

    def __init__(self, func):
        self.func = func

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self.func, instance)


def within(handler, function, *args):
    with handler as shift:
        return function(*args) + shift


class WithHandledMethod:
    @Handler(3)
    def double(self, x):
        return x * 2


handled = Handler(5)(torch.neg)


def test_partials_whose_class_has_another_attribute_of_a_fields_name():
    def program(x):
        made = Handler(2)(torch.exp)
        inner = made.func
        return handled(x), made(x), WithHandledMethod().double(x), inner.func is within, functools.partial.func.__get__(made) is within, len(handled.args)

    agree(program, torch.ones(2), fullgraph=True)


def test_partials_with_slots_live_on_after_a_graph_break():
    def program(x):
        made = Handler(2)(torch.exp)
        framejit.graph_break()
        return made(x), handled(x), made

    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    for x in (torch.ones(2), torch.zeros(2)):
        found, expected = compiled(x), program(x)
        assert all(torch.equal(a, b) for a, b in zip(found[:2], expected[:2]))
        assert type(found[2]) is BoundPartial and torch.equal(found[2](x), expected[0]) and found[2].func.args[1] is torch.exp


class Called(functools.partial):
    def __call__(self, x):
        return super().__call__(x) * 10


def test_a_partial_is_unpacked_only_if_it_is_called_as_partials_are():
    def program(x):
        plain, own, marked = functools.partial(torch.add, x), Called(torch.add, x), functools.partial(torch.add, x)
        marked.note = "kept"
        partials = [functools.partial(each, x * 2) for each in (plain, own, marked, BoundPartial(plain))]
        return [each() for each in partials[:3]], [each.func is torch.add for each in partials], partials[2].func.note

    agree(program, torch.ones(2), fullgraph=True)
