"""Code of the program that runs though no call of it is seen: by metaclasses, enums, autograd functions, slots, comparisons, `__index__`."""

from __future__ import annotations

import enum
import functools
from typing import Any

import pytest
import torch
from agreement import agree_over_calls

import framejit

x = torch.arange(6.0).reshape(2, 3)


class Doubling(type):
    def __getattribute__(cls, name):
        found = super().__getattribute__(name)
        return found * 2 if name == "size" else found

    def __getattr__(cls, name):
        return len(name)


class Measured(metaclass=Doubling):
    size = 3


class Talking(enum.Enum):
    RED = 1
    GREEN = 2

    @classmethod
    def _missing_(cls, value):
        NOTED.append(value)
        return cls.RED if len(NOTED) % 2 else cls.GREEN

    def __str__(self):
        NOTED.append(self.name)
        return f"talking {self.name}"


class Listing(enum.Enum):
    ITEMS = [1]


class Three(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t * (3 if ctx.needs_input_grad[0] else 2)

    @staticmethod
    def backward(ctx, grad):
        return grad


class Slot:
    __slots__ = ("value",)


class BadIndex:
    def __index__(self):
        return "a"  # noqa: PLE0305


NOTED: list[Any] = []


def reads_a_class(t):
    return t * Measured.size, Measured.other


def asks_an_enum(t):
    return t * Talking(7).value, Talking(2).value, Talking["RED"].value, [member.name for member in Talking], len(NOTED)


def formats_an_enum(t):
    return t, f"{Talking.RED} {Talking.RED!s}", "%s" % Talking.RED, "%s" % (Talking.GREEN,), "{}".format(Talking.RED), str(Talking.RED), len(NOTED)


def shows_an_enum(t):
    Listing.ITEMS.value.append(len(NOTED))
    return t, repr(Listing.ITEMS), f"{Listing.ITEMS!r}"


def applies_a_function(t):
    needed = t.clone().requires_grad_()
    with torch.no_grad():
        return Three.apply(needed), Three.apply(t)


def unsets_a_slot(t):
    slot, results = Slot(), []
    slot.value = 1
    for _ in range(2):
        try:
            del slot.value
        except AttributeError as error:
            results.append(str(error))
    return t, results


def sorts_by_comparison(t):
    key = functools.cmp_to_key(lambda a, b: (NOTED.append((a, b)), framejit.graph_break(), b - a)[-1])
    return t + 1, sorted([3, 1, 2], key=key), key(1) < key(2), max([1, 3, 2], key=key)


def indexes_badly(t):
    try:
        return [1][BadIndex()]
    except TypeError as error:
        return t, str(error)


TRACED = (asks_an_enum, formats_an_enum, shows_an_enum, reads_a_class, unsets_a_slot, indexes_badly)


SPLIT = (sorts_by_comparison,)


LEAF_INSIDE = pytest.param(applies_a_function, marks=pytest.mark.only_eager("a leaf made inside splits a graph whose backward is made as a whole"))


@pytest.mark.parametrize("function", [*TRACED, LEAF_INSIDE, *SPLIT], ids=lambda function: function.__name__)
def test_what_runs_the_programs_code_out_of_sight(function):
    def program(compile):
        NOTED.clear()
        Listing.ITEMS.value[:] = [1]
        compiled = compile(function)
        return [compiled(x), compiled(x), compiled(x), NOTED[:]]

    agree_over_calls(program, stops=function in SPLIT)
