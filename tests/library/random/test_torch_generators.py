"""torch.Generators of the program's: what is drawn from them, and the state that they are left in, against eager, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from agreement import Comparison
from named import Programs
from streams import does_as_eager, picture
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

import framejit

BACKENDS = ("eager", "aot_eager")
WHOLE = Programs()
"""By name: programs that are one graph and need it for all calls."""
OTHERS = Programs()
"""Programs that are split, or compiled more than once."""
whole, other = WHOLE.add, OTHERS.add


class State:
    def __init__(self) -> None:
        self.x = torch.randn(4, 6)
        self.y = torch.zeros(20, 20)
        self.w = torch.randn(6, 6, requires_grad=True)
        self.model = nn.Linear(6, 3)
        self.g = torch.Generator().manual_seed(5)
        self.h = torch.Generator().manual_seed(6)
        self.same = self.g
        self.r = random.Random(3)
        self.calls = 0


@whole
def functions(s):
    g, chances = s.g, s.x.sigmoid()
    uniform = torch.rand(3, generator=g), torch.rand(size=(2, 3), generator=g), torch.rand(s.x.shape, generator=g, dtype=torch.float64)
    normal = torch.randn(2, 9, generator=g), torch.normal(s.x, 1.0, generator=g), torch.normal(mean=0.0, std=s.x.abs(), generator=g)
    ints = torch.randint(0, 9, (3,), generator=g), torch.randint(9, (3,), generator=g), torch.randperm(7, generator=g)
    chosen = torch.bernoulli(chances, generator=g), torch.multinomial(torch.ones(5), 2, generator=g), chances.multinomial(7, True, generator=g)
    return uniform, normal, ints, chosen, torch.poisson(torch.ones(3), generator=g), torch.randn(2, device="cpu", generator=g)


@whole
def methods(s):
    g = s.g
    s.x.normal_(generator=g)
    s.y[:, ::2].normal_(1, 2, generator=g)
    s.y.t().uniform_(generator=g)
    made = torch.empty(20).bernoulli_(torch.rand(20, generator=g), generator=g), torch.empty(3).exponential_(generator=g)
    return made, torch.empty(3).random_(5, generator=g), torch.empty(3).uniform_(1, 2, generator=g), s.x.sigmoid().bernoulli(generator=g)


@whole
def two_generators(s):
    return torch.rand(2, generator=s.g) + torch.rand(2, generator=s.h) + torch.rand(2, generator=s.same) + torch.rand(2)


@whole
def states(s):
    a, state = torch.rand(2, generator=s.g), s.g.get_state()
    b = torch.rand(2, generator=s.g)
    s.g.set_state(state)
    s.h.set_state(state)
    return a, b, torch.rand(2, generator=s.g), state


@whole
def made_inside(s):
    g, h = torch.Generator().manual_seed(3), torch.Generator(device="cpu")
    s.kept = torch.Generator()
    h.manual_seed(-4)
    return torch.rand(2, generator=g), torch.rand(2, generator=h), g, h.device, torch.rand(2, generator=s.kept)


@whole
def default_generator(s):
    return torch.rand(2, generator=torch.default_generator), torch.rand(2), torch.rand(2, generator=None)


@whole
def trained(s):
    noise, times = torch.randn(4, 6, generator=s.g), torch.randint(0, 10, (4,), generator=s.g)
    noised = s.x @ s.w
    loss = (noised * noise * times[:, None] + torch.randn_like(noised)).pow(2).mean()
    loss.backward()
    gradient, s.w.grad = s.w.grad, None
    return loss, gradient


@whole
def filled_with_a_gradient(s):
    y = s.x @ s.w
    y[0].normal_(generator=s.g)
    gradient = torch.autograd.grad(y.sum(), s.w)
    return y.detach(), gradient


@whole
def initialised(s):
    nn.init.normal_(s.model.weight, generator=s.g)
    nn.init.xavier_uniform_(s.model.weight, generator=s.g)
    return s.model(s.x)


@whole
def dataset_split(s):
    first, second = random_split(range(10), [7, 3], generator=s.g)
    return first.indices, second.indices


@whole
def dataset_split_by_a_seed(s):
    return [part.indices for part in random_split(range(10), [7, 3], generator=torch.Generator().manual_seed(0))], s.x + 1


@other
def seeded_by_step(s):
    s.calls += 1
    s.g.manual_seed(s.calls)
    return torch.randint(0, s.calls + 3, (s.calls + 2,), generator=s.g), torch.randperm(s.calls + 4, generator=s.g)


@other
def needed(s):
    if torch.rand((), generator=s.g) > 0.5:
        return s.x + torch.rand(6, generator=s.g)
    return s.x


@other
def around_a_break(s):
    g = torch.Generator().manual_seed(s.calls)
    a = torch.rand(3, generator=s.g), torch.rand(3, generator=g)
    print(end="")
    return a, torch.rand(3, generator=s.g), torch.rand(3, generator=g), g


@other
def with_a_gradient(s):
    return torch.bernoulli(torch.sigmoid(s.x @ s.w), generator=s.g)


@other
def seeds_that_are_read(s):
    s.h.seed()
    s.g.manual_seed(42)
    return s.g.initial_seed(), torch.rand(2, generator=s.g), s.h.manual_seed(7).initial_seed()


@other
def in_functions_that_operators_take(s):
    a = torch.cond(s.x.sum() > 0, lambda x: x + torch.rand(6, generator=s.g), lambda x: x.clone(), (s.x,))
    return a, torch.vmap(lambda x: x + torch.rand(6, generator=s.g), randomness="different")(s.x)


@other
def refused(s):
    try:
        return torch.multinomial(torch.zeros(3) - s.calls, 2, generator=s.g)
    except RuntimeError:
        return torch.rand(2, generator=s.g)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", WHOLE)
def test_programs_that_are_one_graph(name: str, backend: str) -> None:
    found = does_as_eager(State, WHOLE[name], backend)
    assert (found["graphs"], found["graph_breaks"], found["recompiles"]) == (1, 0, 0), found["reasons"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OTHERS)
def test_other_programs(name: str, backend: str) -> None:
    does_as_eager(State, OTHERS[name], backend, calls=4)


def test_counted_seeds_compile_once() -> None:
    found = does_as_eager(State, seeded_by_step, "eager", calls=5)
    assert (found["graphs"], found["graph_breaks"]) == (1, 0), found["reasons"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_which_generators_are_one(backend: str) -> None:
    def fn(first, second):
        return torch.rand(2, generator=first), torch.randn(2, 2, generator=second), torch.rand(2, generator=first), torch.rand(2)

    def told(call):
        torch.manual_seed(1)
        g, h = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
        pairs = ((g, h), (h, g), (g, g), (torch.default_generator, h), (h, torch.default_generator))
        return [(picture(call(*pair)), picture(pair), torch.get_rng_state()) for pair in pairs]

    Comparison().same(told(framejit.compile(fn, backend=backend, fullgraph=True)), told(fn))


@pytest.mark.slow
def test_with_inductor() -> None:
    for program in (functions, methods, states, made_inside):
        does_as_eager(State, lambda s: program(s)[0], "inductor")


def test_a_generator_is_no_constant_of_what_is_exported() -> None:
    g = torch.Generator()

    class Noisy(nn.Module):
        def forward(self, x):
            return x + torch.rand(3, generator=g)

    before = g.get_state()
    with pytest.raises(framejit.Unsupported, match=r"torch\.Generator"):
        framejit.export(Noisy(), (torch.ones(3),))
    assert torch.equal(g.get_state(), before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_epochs_of_a_data_loader(backend: str) -> None:
    data = TensorDataset(torch.randn(4, 3), torch.randn(4, 1))

    class Trained:
        def __init__(self) -> None:
            self.model = nn.Linear(3, 1)
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
            self.g = torch.Generator().manual_seed(3)

    def epochs(s):
        losses = []
        for loader in (DataLoader(data, batch_size=2, shuffle=True), DataLoader(data, batch_size=2, shuffle=True, generator=s.g)):
            for x, y in loader:
                s.optimizer.zero_grad()
                loss = (s.model(x) - y).pow(2).mean()
                loss.backward()
                s.optimizer.step()
                losses.append(loss.detach())
        return losses

    found = does_as_eager(Trained, epochs, backend)
    if torch.__version__ < "2.13" and found["graph_breaks"] == 2:  # whose DataLoader.__init__ runs natively
        return
    assert (found["graph_breaks"], backend == "aot_eager" or found["graphs"] == 1) == (0, True), found["reasons"]


@pytest.mark.parametrize("draw", [
    lambda s: torch.randperm(4, generator=s.g).tolist()[2], lambda s: torch.randint(-4, 4, (2,))[1].item(), lambda s: random.randint(-4, 3),
    lambda s: np.random.randint(4), lambda s: s.r.randint(0, 3), lambda s: int(torch.randint(high=4, size=(1,), generator=s.g)),
])  # fmt: skip
@pytest.mark.only_eager("with AOTAutograd, a view of a changed input at a drawn place splits the graph")
def test_drawn_indices_need_no_check(draw: Callable[[State], int]) -> None:
    def fn(s):
        s.x.add_(1)
        return s.x[draw(s)]

    found = does_as_eager(State, fn, "eager")
    assert (found["graphs"], found["graph_breaks"]) == (1, 0), found["reasons"]


@pytest.mark.parametrize("draw", [
    lambda s: torch.randperm(5, generator=s.g).tolist()[0], lambda s: torch.randperm(4).add_(3)[0].item(), lambda s: torch.randint(-5, 3, (1,)).item(),
    lambda s: random.randint(0, 4), lambda s: torch.randint(s.calls - 5, 3, (1,)).item(),
])  # fmt: skip
def test_drawn_indices_that_may_be_out_of_range(draw: Callable[[State], int]) -> None:
    def fn(s):
        s.x.add_(1)
        s.calls -= 1
        try:
            return s.x[draw(s)]
        except IndexError:
            return s.x

    does_as_eager(State, fn, "eager", calls=8)
