"""Limits of the process that a program asks for, or that decide what int() and str() do: each call sees the limits that are in force."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterator

import pytest
import torch
from agreement import outcome

import framejit

x = torch.arange(3.0)


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    """Put the limits back."""
    depth, digits = sys.getrecursionlimit(), sys.get_int_max_str_digits()
    yield
    sys.setrecursionlimit(depth)
    sys.set_int_max_str_digits(digits)


@functools.wraps(len)
def wrapper(items):
    return len(items) + 1


def asked(t):
    return t, sys.getrecursionlimit(), sys.get_int_max_str_digits(), inspect.unwrap(wrapper)([1])


def read(t):
    return t, int("1" * 5000) % 1000, int("f" * 5000, 16) % 7, int("1" * 600)


def written(t):
    return t, len(str(10**5000)), repr(10**600)[:3]


@pytest.mark.parametrize("program", [asked, read, written], ids=lambda program: program.__name__)
def test_the_limits_in_force_are_guarded(program):
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    before = sys.getrecursionlimit()
    for depth, digits in ((before, 4300), (before, 0), (before, 6000), (before + 7, 6000), (before, 4300)):
        sys.setrecursionlimit(depth)
        sys.set_int_max_str_digits(digits)
        expected, found = outcome(program, (x,), {}), outcome(compiled, (x,), {})
        assert expected[0] == found[0]
        assert str(expected[1]) == str(found[1])
    assert sys.getrecursionlimit() == before
