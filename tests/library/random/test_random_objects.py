"""random.Random, numpy.random.default_rng and RandomState: what is drawn from them, and the state that they are left in, against eager, bit for bit."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from agreement import Comparison
from named import Programs
from streams import does_as_eager, picture

import framejit

BACKENDS = ("eager", "aot_eager")
WHOLE = Programs()
"""By name: programs that are one graph and need it for all calls."""
SPLIT = Programs()
"""Programs that are split, or compiled more than once."""
whole, split = WHOLE.add, SPLIT.add


class State:
    def __init__(self) -> None:
        self.x = torch.randn(4, 6)
        self.r = random.Random(5)
        self.g = np.random.default_rng(3)
        self.legacy = np.random.RandomState(4)
        self.of_pcg = np.random.RandomState(np.random.PCG64(1))
        self.other = np.random.Generator(np.random.MT19937(2))
        self.twin = np.random.Generator(self.g.bit_generator)
        self.table, self.floats, self.names = np.arange(12.0).reshape(6, 2), np.arange(7, dtype=np.float32), [1, 2, 3]
        self.calls = 0


@whole
def of_python(s):
    r = s.r
    floats = r.random(), r.uniform(0, 1), r.gauss(0, 1), r.gauss(mu=0, sigma=2), r.betavariate(1, 2), r.triangular()
    return floats, r.randint(1, 3), r.randrange(5), s.x * r.random(), random.random()


@whole
def of_numpy(s):
    g = s.g
    numbers = g.random(), g.integers(0, 10), g.uniform(1.0, 2.0), g.poisson(3.0)
    arrays = g.random(3), g.normal(size=(2, 2)), g.integers(5, size=3), g.permutation(4), g.choice(5, 3), g.standard_normal((2,))
    return numbers, arrays, s.x * g.normal(), s.x[g.permutation(4)], np.random.rand()


@whole
def orders(s):
    s.g.shuffle(s.table)
    return s.g.permutation(s.floats), s.g.choice(s.floats, size=2, replace=False), s.g.permutation(s.table)


@whole
def seeded(s):
    s.r.seed(4)
    first = s.r.random(), s.r.gauss(0, 1)
    s.r.seed(4)
    return first, s.r.random()


@whole
def made_inside(s):
    r, g = random.Random(3), np.random.default_rng(3)
    s.kept = np.random.default_rng(seed=4)
    return r.random(), g.random(2), r, g, np.random.default_rng(g) is g, s.x * r.gauss(0, 1), s.kept.random()


@whole
def of_states(s):
    r, made = s.legacy, np.random.RandomState(3)
    s.kept = np.random.RandomState(seed=5)
    arrays = r.randn(2, 3), r.uniform(size=2), r.randint(0, 5, 3), r.permutation(4), r.choice(5, 3), r.rand(2), r.normal(0.0, 2.0, (2,))
    r.shuffle(s.table)
    first = made.randn(), made.randint(7), s.kept.random_sample(2)
    made.seed(3)
    return arrays, first, made.standard_normal(), made.permutation(s.floats), s.x * r.randn(), made, np.random.randn(2)


@whole
def twins(s):
    return s.g.random(), s.twin.random(3), s.g.random(), s.g.bit_generator is s.twin.bit_generator


@whole
def orders_of_numbers(s):
    places, r = list(range(5)), random.Random(3)
    s.r.shuffle(places)
    s.kept = r.choice((7, 9)), r.sample(range(90), k=3), r.choices([1.5, 2.5], k=2)
    return places, s.x * s.r.choice([0.5, 2.0]), s.r.sample([3, 1, 2], 2), s.r.choices([1, 2])[0], s.r.random(), r


@whole
def bits(s):
    r = random.Random(3)
    drawn = s.r.getrandbits(8), random.getrandbits(3), r.getrandbits(62), r.getrandbits(0)
    return drawn, s.x * s.r.getrandbits(True), s.r.getrandbits(33), s.x[s.r.getrandbits(0)]


@split
def bits_drawn_natively(s):
    found = [random.Random(3).getrandbits(100), s.r.getrandbits(64)]
    for wrong in (lambda: s.r.getrandbits(-1), lambda: s.r.getrandbits(1.5), lambda: s.r.getrandbits(), lambda: s.r.getrandbits(k=3), lambda: s.r.choice([])):
        try:
            wrong()
        except (TypeError, ValueError, IndexError) as error:
            found.append((type(error), str(error)))
    return found, s.r.random()


@split
def around_a_break(s):
    a = s.r.random(), s.g.random(2)
    print(end="")
    s.r.shuffle(s.names)
    return a, s.r.random(), s.g.random(2), s.r.choice(s.names), s.r.getstate()[2]


@split
def attributes(s):
    drawn = s.r.gauss(0, 1), s.r.gauss_next
    s.r.gauss_next = None
    return drawn, s.r.gauss(0, 1)


@split
def others(s):
    fresh = random.Random(), np.random.default_rng(), np.random.RandomState()
    return s.of_pcg.rand(2), s.other.random(2), [type(one) for one in fresh], random._inst.random(), s.g.random(2, dtype=np.float32)


@split
def needed(s):
    return s.x + s.g.random() if s.r.random() < 0.5 else s.x


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", WHOLE)
def test_programs_that_are_one_graph(name: str, backend: str) -> None:
    found = does_as_eager(State, WHOLE[name], backend)
    assert (found["graphs"], found["graph_breaks"], found["recompiles"]) == (1, 0, 0), found["reasons"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SPLIT)
def test_programs_that_are_split(name: str, backend: str) -> None:
    does_as_eager(State, SPLIT[name], backend, calls=4)


def test_counted_seeds_compile_once() -> None:
    def fn(s):
        s.calls += 1
        return random.Random(s.calls).random(), np.random.default_rng(s.calls).random(2) + s.x[0, :2].numpy()

    found = does_as_eager(State, fn, "aot_eager", calls=5)
    assert (found["graphs"], found["graph_breaks"]) == (1, 0), found["reasons"]


def test_which_generators_are_one() -> None:
    def fn(first, second, r):
        return first.random(2), second.random(2), first.random(2), r.random(), random.random()

    def told(call):
        random.seed(1)
        g, h, r = np.random.default_rng(1), np.random.default_rng(2), random.Random(3)
        calls = ((g, h, r), (h, g, r), (g, g, r), (g, np.random.Generator(g.bit_generator), r), (g, h, random._inst))
        return [(call(*args), picture(args), random.getstate()) for args in calls]

    Comparison().same(told(framejit.compile(fn, backend="eager")), told(fn))


def test_the_state_of_the_process_is_told_apart_from_others() -> None:
    def fn(r):
        return r.rand(2), np.random.rand(2), r.randn()

    def told(call):
        np.random.seed(1)
        states = np.random.RandomState(2), np.random.mtrand._rand, np.random.RandomState(np.random.PCG64(3)), np.random.RandomState(4)
        return [(call(state), str(state.get_state(legacy=False))) for state in states * 2]

    Comparison().same(told(framejit.compile(fn, backend="eager")), told(fn))


@pytest.mark.slow
def test_with_inductor() -> None:
    for program in (of_python, of_numpy, seeded, made_inside, orders_of_numbers, bits):
        does_as_eager(State, lambda s: program(s)[0], "inductor")
