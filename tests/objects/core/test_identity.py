"""Compiled functions get equal but different objects: identity, hashes and order are those of each call's own objects."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import agree_over_calls
from torch import nn

import framejit

x = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("make", [lambda: int("1000"), lambda: "".join(["ab", "cd"]), lambda: tuple([1, 2]), lambda: float("nan")])
def test_identity_of_equal_values(make):
    def program(compile):
        f = compile(lambda a, b: (a is b, [a] == [b], a in [b], x + 1))
        one = make()
        return [f(one, one), f(one, make()), f(one, one), f(make(), make())]

    agree_over_calls(program)


@pytest.mark.parametrize("make", [lambda: tuple([1, 2]), lambda: tuple(["a", (1.5, None)])])
def test_identity_of_tuples_whose_items_are_known(make):
    """One tuple that is an argument twice is one, also after the trace has looked into it."""

    def program(compile):
        f = compile(lambda a, b: (hash(a), a == b, a is b, a[1] is b[1], x + 1))
        one = make()
        return [f(one, one), f(one, make()), f(one, one), f(make(), make())]

    agree_over_calls(program)


def test_hashes_of_tuples_are_the_real_ones():
    agree_over_calls(lambda compile: [compile(lambda t, k: (t + 1, hash(k), hash((k, 2))))(x, k) for k in [(1, "a"), (), ("b", (2.5, None))]])


def test_order_of_equal_sets():
    def program(compile):
        f = compile(lambda t, s: (t + 1, list(s), 8 in s))
        other = {0}
        other.add(8)
        return [f(x, {8, 0}), f(x, other), f(x, frozenset({8, 0})), f(x, frozenset(other))]

    agree_over_calls(program)


def test_equal_ranges():
    agree_over_calls(lambda compile: [f(x, r) for f in [compile(lambda t, r: (t, r == range(0), r.start, repr(r)))] for r in (range(0), range(1, 1))])


class Plain:
    """Hashes by identity."""


KEYS: dict[str, Callable[[], Any]] = {
    "tensors": lambda: torch.ones(1), "objects": Plain, "modules": lambda: nn.Linear(1, 1), "functions": lambda: lambda: 1,
    "methods": lambda: Plain().__init__, "tuples": lambda: (Plain(), 1),
}  # fmt: skip


@pytest.mark.parametrize("kind", KEYS)
def test_keys_by_identity_may_be_one_object_in_the_next_call(kind):
    def f(t, a, b):
        looked_up = {a: 1, b: 2}[a], a in {b: 1}, {}.get(a), dict.fromkeys([a, b]).keys() == {a}
        return t + 1, looked_up, len({a, b}), {a} == {b}, len({a} | {b}), {a}.isdisjoint([b]), frozenset([a]) == frozenset([b])

    def program(compile):
        compiled, one, other = compile(f), KEYS[kind](), KEYS[kind]()
        return [compiled(x, *pair) for pair in ((one, other), (one, one), (other, one), (other, other))]

    agree_over_calls(program)


def test_weak_references_are_keys_by_what_they_refer_to():
    def f(t, a, b):
        return t + 1, {a: 1, b: 2}[a], len({a, b}), a in {b: 1}

    one, other = Plain(), Plain()
    pairs = [(weakref.ref(one), weakref.ref(other)), (weakref.ref(one), weakref.ref(one, print)), (weakref.ref(one), weakref.ref(one))]
    compiled = framejit.compile(f, backend="eager")
    for pair in pairs:
        assert compiled(x, *pair)[1:] == f(x, *pair)[1:]


def test_weights_may_come_to_be_shared():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(1, 1), nn.Linear(1, 1)

        def forward(self, t):
            seen = set()
            for layer in (self.first, self.second):
                seen.add(layer)
            return t + 1, len(seen), len(set(self.parameters()))

    def program(compile):
        net = Net()
        compiled = compile(net)
        results = [compiled(x)]
        net.second.weight = net.first.weight
        results.append(compiled(x))
        net.second = net.first
        return [*results, compiled(x)]

    agree_over_calls(program)
