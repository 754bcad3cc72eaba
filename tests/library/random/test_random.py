"""Random numbers: torch's, Python's and NumPy's, with the streams after each call, against eager, bit for bit."""

from __future__ import annotations

import functools
import importlib
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from agreement import Comparison
from named import Programs
from streams import does_as_eager, seed, streams
from torch import nn
from torch.utils.checkpoint import checkpoint

import framejit

BACKENDS = ("eager", "aot_eager")
WHOLE = Programs()
"""By name: programs that are one graph and need it for all calls."""
SPLIT = Programs()
"""Programs that are split."""
whole, split = WHOLE.add, SPLIT.add


class State:
    def __init__(self) -> None:
        self.x = torch.randn(4, 6)
        self.y = torch.randint(0, 6, (4,))
        self.w = torch.randn(6, 6, requires_grad=True)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 6))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.random = random.Random(7)
        self.numpy = np.random.default_rng(3)
        self.table, self.floats = np.arange(12.0).reshape(6, 2), np.arange(7, dtype=np.float32)
        self.calls = 0


# torch's default generator.


@whole
def many_draws(s):
    a = torch.rand(3), torch.randn(2, 2), torch.randint(0, 9, (3,)), torch.randperm(7), torch.rand_like(s.x), torch.bernoulli(torch.full((3,), 0.4))
    return a, torch.multinomial(torch.ones(5), 2), torch.normal(0.0, 1.0, (3,)), torch.poisson(torch.ones(3))


@whole
def draws_in_place(s):
    return torch.empty(3).normal_(), torch.empty(3).uniform_(1, 2), torch.empty(4).bernoulli_(0.3), torch.empty(3).exponential_(), torch.empty(3).random_(5)


@whole
def draws_that_nothing_needs(s):
    torch.rand(3)
    y = s.x + 1
    torch.randn(2)
    return y + torch.rand(())


@whole
def draws_in_place_that_nothing_needs(s):
    torch.empty(3).normal_()
    torch.empty((), dtype=torch.int64).random_()
    scaled = torch.empty(2)
    scaled.uniform_().mul_(2)
    noise = torch.empty(6)
    noise.normal_()
    return s.x + noise + torch.rand(())


@whole
def gumbel(s):
    return F.gumbel_softmax(s.x @ s.w, tau=0.5, hard=True)


@whole
def reparametrised(s):
    mean, deviation = (s.x @ s.w).chunk(2, 1)
    return mean + torch.randn_like(deviation) * (0.5 * deviation).exp()


@whole
def drop_path(s):
    return s.x * s.x.new_empty((4, 1)).bernoulli_(0.8).div_(0.8)


@split
def dropout_trained(s):
    loss = F.cross_entropy(s.model(s.x), s.y)
    s.optimizer.zero_grad()
    loss.backward()
    s.optimizer.step()
    return loss


@split
def draws_around_a_break(s):
    a = torch.rand(3)
    print(end="")
    return a, torch.rand(3)


@split
def seeded(s):
    s.calls += 1
    a = torch.rand(3)
    torch.manual_seed(s.calls)
    return a, torch.rand(3), s.model(s.x)


@whole
def state_put_back(s):
    state = torch.get_rng_state()
    a = s.model(s.x)
    torch.set_rng_state(state)
    return a - s.model(s.x), state


@whole
def forked(s):
    s.forks = True
    with torch.random.fork_rng():
        torch.manual_seed(0)
        a = torch.rand(3)
    return a, torch.rand(3)


@whole
def everything_seeded(s):
    random.seed(3)
    np.random.seed(3)
    generator = torch.manual_seed(3)
    drawn = torch.rand(2, generator=generator) + random.random() + np.random.rand()
    random.seed(-2)
    return drawn + random.gauss(0, 1)


@whole
def seeded_in_training(s):
    torch.manual_seed(7)
    loss = F.cross_entropy(s.model(s.x), s.y)
    s.optimizer.zero_grad()
    loss.backward()
    s.optimizer.step()
    torch.manual_seed(8)
    return loss


@whole
def seeded_last(s):
    y = s.x + torch.rand(())
    torch.manual_seed(8)
    return y


@split
def forked_in_a_try(s):
    s.calls += 1
    try:
        with torch.random.fork_rng():
            return torch.rand(6) * s.x[torch.tensor([s.calls * 2])]
    except IndexError:
        return torch.rand(2)


@split
def seeded_in_functions_that_operators_take(s):
    def seeded_here(x):
        torch.manual_seed(3)
        return x * torch.rand(6)

    return checkpoint(seeded_here, s.x @ s.w, use_reentrant=False), torch.vmap(seeded_here, randomness="same")(s.x)


@split
def seeds_that_are_refused(s):
    s.calls -= 1
    np.random.seed(s.calls + 2)
    return s.x * np.random.rand()


@split
def states_that_are_refused(s):
    torch.set_rng_state(torch.zeros_like(torch.get_rng_state()))
    return torch.rand(2)


@split
def seeds_read(s):
    torch.seed()
    torch.manual_seed(3)
    random.seed("abc")
    return torch.initial_seed(), torch.rand(2), random.random()


# Python's and NumPy's generators of the process.


@whole
def scaled(s):
    return s.x * random.random()


@whole
def several_of_python(s):
    return s.x * random.uniform(0, 1) + random.gauss(0, 1) - random.betavariate(2, 3) + random.randint(0, 9)


@whole
def mixed(s):
    share = np.random.beta(0.2, 0.2)
    other = torch.randperm(4)
    out = s.model(share * s.x + (1 - share) * s.x[other])
    return share * F.cross_entropy(out, s.y) + (1 - share) * F.cross_entropy(out, s.y[other])


@whole
def several_of_numpy(s):
    return s.x * np.random.rand() + np.random.uniform(1, 2) * s.x + np.random.normal(), s.x + np.random.randint(5)


@whole
def all_streams(s):
    return s.x * random.random() + torch.rand(6) * np.random.random() - random.random()


@whole
def python_draw_that_nothing_needs(s):
    random.random()
    return s.x + 1


@whole
def given_back(s):
    return random.random() * 2, np.random.randint(3, 9), s.x + 1


@split
def drawn_around_a_break(s):
    a = random.random()
    b = s.x * a
    print(end="")
    return b + a * random.random(), a


@split
def chosen_by_chance(s):
    x = s.x
    for _ in range(3):
        if random.uniform(0, 1) < 0.4:
            continue
        x = x @ s.w
    return x


@split
def sampled(s):
    order = [0, 1, 2, 3]
    random.shuffle(order)
    return s.x[order], s.x * random.choice([1, 2, 3]), random.sample(range(9), 2), s.x[random.randint(0, 3)]


@split
def state_of_python_put_back(s):
    state = random.getstate()
    a = random.random()
    random.setstate(state)
    return s.x * a, s.x * random.random()


@split
def generators_of_the_program(s):
    return s.x * s.random.random() + s.random.randint(0, 3), s.x * s.numpy.random(), torch.from_numpy(s.numpy.normal(size=3))


@whole
def arrays(s):
    r = np.random
    uniform = r.rand(3), r.random((2, 2)), r.random_sample(2), r.uniform(1, 2, 3), r.uniform(low=-1.0, high=1, size=(2, 3)), r.uniform(0, 1, ()), r.rand(0, 3)
    normal = r.randn(2, 3), r.normal(0, 1, 4), r.normal(loc=1.0, size=2), r.normal(scale=2.0), r.standard_normal((3,)), r.lognormal(0.0, 1.0, 2)
    others = r.beta(1.0, 2.0, size=3), r.gamma(2.0, size=[2]), r.exponential(2.0, (2,)), r.laplace(size=2), r.triangular(0, 1, 2, 3), r.chisquare(2.0, 2)
    ints = r.randint(0, 5, (3,)), r.randint(7, size=4), r.randint(low=1, high=3), r.poisson(3.0, 4), r.binomial(5, 0.3, size=3), r.geometric(0.5, 3)
    chosen = r.choice(5), r.choice(5, 3), r.choice(5, 3, False), r.choice(5, size=(2, 2), replace=True), r.permutation(6)
    return uniform, normal, others, ints, chosen


@whole
def arrays_and_tensors(s):
    noised = s.x + torch.from_numpy(np.random.randn(4, 6)).float() + torch.tensor(np.random.normal(0, 1, 6))
    return noised[np.random.permutation(4)], s.x[np.random.choice(4)], s.x * np.random.normal(0, 1, 3).sum(), s.x[np.random.rand(4) < 0.5]


@whole
def mixed_row_by_row(s):
    share = np.where(np.random.rand(4) < 0.5, np.random.beta(1.0, 1.0, size=4).astype(np.float32), 1.0)
    share = torch.tensor(share, dtype=torch.float32).reshape(4, 1)
    return s.x * share + s.x.flip(0) * (1 - share)


@whole
def orders(s):
    np.random.shuffle(s.table)
    return np.random.permutation(s.table), np.random.permutation(s.floats), np.random.choice(s.floats, size=2, replace=False)


@split
def lists_and_refused_arrays(s):
    places = [3, 4, 5]
    np.random.shuffle(places)
    s.calls += 1
    chosen = places, np.random.choice([1, 2, 3]), np.random.choice(3, p=[0.2, 0.3, 0.5]), np.random.uniform([0, 1], [1, 2]), np.random.choice(s.floats)
    try:
        return chosen, np.random.rand(2), np.random.randint(5, size=3, dtype=np.int32), np.random.normal(0, -s.calls, 3)
    except ValueError as error:
        return str(error), np.random.rand(2)


@split
def arrays_with_probabilities(s):
    return s.x * np.random.choice(s.floats, p=np.full(len(s.floats), 1 / len(s.floats))), np.random.choice(s.floats, 2, True, np.eye(len(s.floats))[0])


@split
def cut(s):
    share, width = np.random.beta(1.0, 1.0), 6
    size, center = int(width * np.sqrt(1.0 - share)), np.random.randint(width)
    first, last = np.clip(center - size // 2, 0, width), np.clip(center + size // 2, 0, width)
    x = s.x.clone()
    x[:, first:last] = 0
    return x


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", WHOLE)
def test_programs_that_are_one_graph(name: str, backend: str) -> None:
    found = does_as_eager(State, WHOLE[name], backend)
    assert (found["graphs"], found["graph_breaks"], found["recompiles"]) == (1, 0, 0), found["reasons"]


def test_counted_seeds_compile_once() -> None:
    def fn(s):
        s.calls += 1
        random.seed(s.calls)
        np.random.seed(s.calls)
        torch.manual_seed(s.calls)
        return torch.rand(2) + random.random() + np.random.rand()

    found = does_as_eager(State, fn, "aot_eager", calls=5)
    assert (found["graphs"], found["graph_breaks"]) == (1, 0), found["reasons"]


def test_counted_sizes_of_arrays_compile_once() -> None:
    def fn(s):
        s.calls += 1
        return np.random.permutation(s.calls + 2), np.random.rand(s.calls + 1, 2), np.random.normal(size=s.calls + 3)

    found = does_as_eager(State, fn, "aot_eager", calls=5)
    assert (found["graphs"], found["graph_breaks"]) == (1, 0), found["reasons"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SPLIT)
def test_programs_that_are_split(name: str, backend: str) -> None:
    does_as_eager(State, SPLIT[name], backend, calls=4)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["gumbel", "reparametrised", "mixed"])
def test_gradients(name: str, backend: str) -> None:
    fn = WHOLE[name]
    call = framejit.compile(fn, backend=backend)

    def trained(s, forward):
        s.w.grad = None
        s.optimizer.zero_grad()
        forward(s).pow(2).sum().backward()
        s.optimizer.step()
        return s.w.grad

    told = []
    for forward in (call, fn):
        seed(1)
        s = State()
        told.append([[trained(s, forward), [p.grad for p in s.model.parameters()], streams()] for _ in range(3)])
    Comparison().same(*told)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", [many_draws, scaled, mixed, all_streams, draws_around_a_break, dropout_trained])
def test_compiling_draws_nothing(fn: Callable[..., Any], backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from framejit.compiler import compiled

    seen = []
    compile_graph = compiled.compile_graph

    def recorded(request):
        seen.append(streams())
        made = compile_graph(request)
        seen.append(streams())
        return made

    monkeypatch.setattr(compiled, "compile_graph", recorded)
    state = State()
    before = streams()
    framejit.compile(fn, backend=backend)(state)
    for found in seen[:2]:
        Comparison().same(found, before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_check_that_fails_draws_nothing_twice(backend: str) -> None:
    def fn(s):
        s.calls += 1
        factor = random.random() * s.x + np.random.rand() + torch.rand(6)
        if (factor > 2 - s.calls).any():
            raise ValueError("too large")
        return factor

    does_as_eager(State, fn, backend, calls=4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_error_with_a_handler_draws_nothing_twice(backend: str) -> None:
    def fn(s):
        s.calls += 1
        try:
            return s.x[torch.tensor([s.calls * 2])] * random.random() + torch.rand(6)
        except IndexError:
            return random.random()

    does_as_eager(State, fn, backend, calls=4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_arithmetic_on_a_number_of_a_tensor_rounds_as_pythons(backend: str) -> None:
    def fn(s):
        a = s.x.double().sum().item()
        b = s.x.sum().item()
        return s.x.double() * (1 - (1 - a)) + ((a + 0.1) * 3 - b / 7), s.x * ((b - 0.1) * 10)

    found = does_as_eager(State, fn, backend)
    assert (found["graphs"], found["graph_breaks"]) == (1, 0), found["reasons"]


def test_numbers_are_drawn_in_order_with_inductor() -> None:
    def fn(x):
        a, b, c = random.random(), random.randint(0, 100), random.uniform(5, 6)
        share = np.random.beta(2, 2)
        return x * c + b, x * a, share * x + (1 - share)

    x = torch.randn(3, requires_grad=True)
    compiled = framejit.compile(fn, backend="inductor", fullgraph=True)
    for number in range(3):
        seed(number)
        found = compiled(x)
        after = streams()
        seed(number)
        torch.testing.assert_close(found, fn(x))
        Comparison().same(after, streams())
        sum(part.sum() for part in found).backward()
        Comparison().same(after, streams())


@pytest.mark.parametrize("call", [lambda: random.randint(5, 1), lambda: np.random.beta(-1, 1)])
def test_arguments_that_are_refused(call: Callable[[], Any]) -> None:
    def fn(s):
        return s.x * call()

    does_as_eager(State, fn, "eager")


def test_functions_put_in_the_place_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def fn(x):
        return x * random.uniform(0, 1) + np.random.rand() + random.random()

    x = torch.ones(2)
    compiled = framejit.compile(fn, backend="eager")
    compiled(x)
    for module, name, other in ((random, "uniform", lambda a, b: b), (np.random, "rand", lambda: 5.0), (random, "random", lambda: 0.25)):
        monkeypatch.setattr(module, name, other)
        seed(4)
        expected = fn(x)
        seed(4)
        assert torch.equal(compiled(x), expected)


def test_seeds_once_torchs_own_tracer_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """It puts another function around torch.manual_seed when it is imported. What a program puts around that runs as it is."""
    importlib.import_module("torch._dynamo")
    assert torch.manual_seed is not torch.random.manual_seed
    seeds = []

    def seeded(x: torch.Tensor) -> Any:
        first = torch.manual_seed(3)
        a = torch.rand_like(x)
        torch.random.manual_seed(seed=4)
        return first is torch.default_generator, a, torch.rand_like(x)

    framejit.reset()
    compiled = framejit.compile(seeded, backend="eager")
    x = torch.ones(3)
    Comparison().same(seeded(x), compiled(x))
    assert framejit.statistics()["graph_breaks"] == 0

    @functools.wraps(torch.random.manual_seed)
    def noted(seed: int) -> Any:
        seeds.append(seed)
        return torch.random.manual_seed(seed + 1)

    monkeypatch.setattr(torch, "manual_seed", noted)
    Comparison().same(seeded(x), compiled(x))
    assert seeds == [3, 3]


@pytest.mark.parametrize("draw", [lambda: random.random(), lambda: np.random.rand(1).item()])
def test_a_draw_before_a_branch_whose_value_is_needed_in_the_branch(draw):
    def program(x):
        drawn, y = draw(), x + 1
        if x.sum() > 0:
            for _ in range(int(drawn * 3) + 1):
                y = y * 2
        return y

    compiled = framejit.compile(program, backend="eager")
    for number in range(6):
        x = torch.full((3,), 1.0 if number % 3 else -1.0)
        found = []
        for run in (compiled, program):
            random.seed(number), np.random.seed(number)
            found.append((run(x), random.random(), np.random.rand()))
        assert torch.equal(found[0][0], found[1][0]) and found[0][1:] == found[1][1:]
