"""torch.distributions with its validation on, as is usual: results, gradients and the random stream against eager, in one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributions as D
import torch.nn.functional as F
from agreement import Comparison
from named import Programs
from streams import does_as_eager, story
from torch import nn

import framejit

BACKENDS = ("eager", "aot_eager")
LAZY = D.utils.lazy_property


@pytest.fixture(autouse=True)
def validation() -> Any:
    """torch.compile turns validation off for the whole process when it is imported."""
    before = D.Distribution._validate_args
    D.Distribution.set_default_validate_args(True)
    yield
    D.Distribution.set_default_validate_args(before)


class State:
    def __init__(self) -> None:
        self.x = torch.randn(4, 6)
        self.w = torch.randn(6, 6, requires_grad=True)
        self.policy = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6))
        self.optimizer = torch.optim.SGD(self.policy.parameters(), lr=0.1)

    @property
    def scale(self) -> torch.Tensor:
        return self.x.exp()


MAKERS: dict[str, Callable[[State], D.Distribution]] = {
    "Normal": lambda s: D.Normal(s.x @ s.w, s.scale),
    "Normal of floats": lambda s: D.Normal(0.0, 1.0),
    "Categorical of logits": lambda s: D.Categorical(logits=s.x @ s.w),
    "Categorical of probabilities": lambda s: D.Categorical(F.softmax(s.x, -1)),
    "Bernoulli": lambda s: D.Bernoulli(torch.sigmoid(s.x @ s.w)),
    "Bernoulli of logits": lambda s: D.Bernoulli(logits=s.x),
    "Beta": lambda s: D.Beta(s.scale, s.scale + 1),
    "Dirichlet": lambda s: D.Dirichlet(s.scale),
    "Gamma": lambda s: D.Gamma(s.scale, s.scale),
    "Exponential": lambda s: D.Exponential(s.scale),
    "Laplace": lambda s: D.Laplace(s.x, s.scale),
    "Cauchy": lambda s: D.Cauchy(s.x, s.scale),
    "Uniform": lambda s: D.Uniform(s.x, s.x + 1),
    "Gumbel": lambda s: D.Gumbel(s.x, s.scale),
    "Poisson": lambda s: D.Poisson(s.scale),
    "Geometric": lambda s: D.Geometric(torch.sigmoid(s.x)),
    "OneHotCategorical": lambda s: D.OneHotCategorical(logits=s.x),
    "OneHotCategoricalStraightThrough": lambda s: D.OneHotCategoricalStraightThrough(logits=s.x @ s.w),
    "RelaxedOneHotCategorical": lambda s: D.RelaxedOneHotCategorical(torch.tensor(0.5), logits=s.x @ s.w),
    "Multinomial": lambda s: D.Multinomial(5, logits=s.x),
    "Binomial": lambda s: D.Binomial(5, logits=s.x),
    "MultivariateNormal": lambda s: D.MultivariateNormal(s.x[0, :3], torch.eye(3), validate_args=False),
    "Independent": lambda s: D.Independent(D.Normal(s.x @ s.w, s.scale), 1),
    "TransformedDistribution": lambda s: D.TransformedDistribution(D.Normal(s.x @ s.w, s.scale), [D.TanhTransform(cache_size=1)]),
    "MixtureSameFamily": lambda s: D.MixtureSameFamily(D.Categorical(logits=s.x[0]), D.Normal(s.x[1], s.scale[1])),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MAKERS)
def test_drawing_and_probabilities_are_one_graph(name: str, backend: str) -> None:
    make = MAKERS[name]

    def program(s):
        distribution = make(s)
        value = distribution.rsample() if distribution.has_rsample else distribution.sample()
        return value, distribution.sample((2,)), distribution.log_prob(value.detach())

    found = does_as_eager(State, program, backend)
    assert (found["graphs"], found["graph_breaks"], found["recompiles"]) == (1, 0, 0), found["reasons"]


PROGRAMS = Programs()
program = PROGRAMS.add


@program
def acts(s):
    distribution = D.Categorical(logits=s.policy(s.x))
    action = distribution.sample()
    return action, distribution.log_prob(action), distribution.entropy()


@program
def squashed(s):
    mean, deviation = s.policy(s.x).chunk(2, 1)
    distribution = D.Independent(D.TransformedDistribution(D.Normal(mean, deviation.exp()), [D.TanhTransform(cache_size=1)]), 1)
    action = distribution.rsample()
    return action, distribution.log_prob(action)


@program
def divergences(s):
    first = D.kl_divergence(D.Normal(s.x, s.scale), D.Normal(0.0, 1.0)).sum()
    second = D.kl_divergence(D.Categorical(logits=s.x), D.Categorical(logits=s.x + 1))
    return (
        first,
        second,
        D.kl_divergence(D.Beta(s.scale, s.scale), D.Beta(s.scale + 1, s.scale)),
        D.kl_divergence(D.Bernoulli(logits=s.x), D.Bernoulli(logits=-s.x)),
    )


@program
def encodes(s):
    mean, deviation = (s.x @ s.w).chunk(2, 1)
    posterior = D.Normal(mean, (deviation * 0.5).exp())
    z = posterior.rsample()
    return z.pow(2).sum() + D.kl_divergence(posterior, D.Normal(torch.zeros_like(mean), torch.ones_like(mean))).sum()


@program
def expands_and_looks(s):
    distribution = D.Normal(s.x[0], 1.0).expand((3, 6))
    return (
        distribution.sample(),
        distribution.mean,
        distribution.cdf(s.x[:3]),
        distribution.batch_shape,
        repr(distribution),
        D.Bernoulli(0.3).enumerate_support(),
    )


@program
def constraints(s):
    return D.constraints.positive.check(s.scale), D.biject_to(D.constraints.positive)(s.x), D.transform_to(D.constraints.simplex)(s.x)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_one_graph(name: str, backend: str) -> None:
    found = does_as_eager(State, PROGRAMS[name], backend)
    assert (found["graphs"], found["graph_breaks"], found["recompiles"]) == (1, 0, 0), found["reasons"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", [acts, encodes])
def test_gradients_of_what_was_drawn(fn: Callable[..., Any], backend: str) -> None:
    call = framejit.compile(fn, backend=backend)

    def trained(s, forward=fn):
        found = forward(s)
        loss = found if isinstance(found, torch.Tensor) else -(found[1] * found[0]).mean() - found[2].mean()
        s.optimizer.zero_grad()
        loss.backward()
        s.optimizer.step()
        return loss

    Comparison().same(story(State, lambda s: trained(s, call)), story(State, trained))


def updated(s: State, x: torch.Tensor) -> Any:
    distribution = D.Categorical(logits=s.policy(x))
    action = distribution.sample()
    loss = -distribution.log_prob(action).mean()
    s.optimizer.zero_grad()
    loss.backward()
    s.optimizer.step()
    return loss, action


def updated_twice(s: State, x: torch.Tensor) -> Any:
    updated(s, torch.ones_like(x))
    return updated(s, x)


def seen_steps(step: Callable[..., Any]) -> list[Any]:
    """Return the results of five steps, with parameters, gradients and random numbers after each. In the third and the fifth, a check fails."""
    torch.manual_seed(0)
    s, found = State(), []
    for number in (1.0, 2.0, float("nan"), 3.0, float("nan")):
        try:
            result = [tensor.detach() for tensor in step(s, torch.full((4, 6), number))]
        except ValueError as error:
            result = [str(error)]
        found.append((result, [(p.detach().clone(), None if p.grad is None else p.grad.clone()) for p in s.policy.parameters()], torch.rand(2)))
    return found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("step", [updated, updated_twice])
def test_a_check_that_fails_in_a_step_changes_what_eager_changes(step: Callable[..., Any], backend: str) -> None:
    framejit.reset()
    Comparison().same(seen_steps(step), seen_steps(framejit.compile(step, backend=backend)))
    found = framejit.statistics()
    if step is updated or backend == "aot_eager":
        assert found["graph_breaks"] == 0, found["reasons"]


def test_what_a_graph_raises_besides_its_checks_comes_out_as_it_is() -> None:
    def step(s, index):
        distribution = D.Categorical(logits=s.policy(s.x)[index])
        s.w.data.add_(1)
        return distribution.sample()

    framejit.reset()
    s = State()
    compiled = framejit.compile(step, backend="eager")
    compiled(s, torch.tensor([0, 1]))
    w = s.w.detach().clone()
    with pytest.raises(IndexError):
        compiled(s, torch.tensor([9, 0]))
    assert torch.equal(s.w, w)
    assert framejit.statistics()["graphs"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_invalid_parameters_and_values_raise_as_in_eager(backend: str) -> None:
    def negative(s):
        return D.Normal(s.x, -s.scale).sample()

    def outside(s):
        return D.Bernoulli(torch.full((3,), 0.5)).log_prob(torch.full((3,), 2.0))

    def told(s):
        try:
            return D.Normal(s.x, -s.scale).sample()
        except ValueError as error:
            return str(error)

    def only_sometimes(s):
        s.x = s.x - 2
        return D.Exponential(s.x + 3).sample()

    for fn in (negative, outside, told, only_sometimes):
        does_as_eager(State, fn, backend)


def test_the_property_that_a_class_gives_is_a_property() -> None:
    def fn(x):
        found = D.Categorical.logits
        return isinstance(found, property), isinstance(found, LAZY), x + 1

    x = torch.ones(2)
    assert framejit.compile(fn, backend="eager", fullgraph=True)(x)[:2] == fn(x)[:2] == (True, True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_new_takes_a_size_for_sizes_and_a_tuple_for_numbers(backend: str) -> None:
    def fn(x):
        return (
            x.new(x.shape).shape,
            x.new(x.shape[:1]).shape,
            x.new((2, 3)),
            x.new(2, 3).shape,
            x.new([1.0, 2.0]),
            x.new(torch.Size([])).shape,
        )

    compiled = framejit.compile(fn, backend=backend, fullgraph=True, dynamic=True)
    for x in (torch.ones(4, 6), torch.ones(5, 2, dtype=torch.float64)):
        found, expected = compiled(x), fn(x)
        assert [*map(str, found)] == [*map(str, expected)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", [
    lambda: D.ExpTransform(), lambda: D.ComposeTransform([D.AffineTransform(1.0, 2.0), D.TanhTransform(cache_size=1)]),
])  # fmt: skip
def test_inverses_of_transforms_from_outside(make, backend):
    """Some versions of torch hold them weakly."""

    def program(transform, x):
        inverse = transform.inv
        return inverse(transform(x)), inverse.inv(x), inverse.inv is transform, transform.inv is inverse, inverse

    compiled = framejit.compile(program, backend=backend, fullgraph=True)
    x = torch.linspace(0.1, 0.9, 5)
    ours, theirs, kept = make(), make(), []
    for keep in (False, True, True):
        (*found, inverse), (*expected, inverse_in_eager) = compiled(ours, x), program(theirs, x)
        torch.testing.assert_close(found, expected)
        assert ours.inv is inverse and theirs.inv is inverse_in_eager and inverse == ours.inv
        kept += [inverse, inverse_in_eager] if keep else []


def divergence_of_normals(x: torch.Tensor) -> Any:
    return D.kl_divergence(D.Normal(x, x.exp()), D.Normal(0.0, 1.0)).sum()


def divergence_of_relatives(x: torch.Tensor) -> Any:
    """Only the classes that they are derived from have a formula."""
    return D.kl_divergence(D.Chi2(x.exp()), D.Exponential(x.exp())).sum()


def divergence_by_name(x: torch.Tensor) -> Any:
    return D.kl_divergence(p=D.Normal(x, x.exp()), q=D.Normal(0.0, 1.0)).sum()


class OwnNormal(D.Normal):
    pass


def divergence_of_own(x: torch.Tensor) -> Any:
    return D.kl_divergence(OwnNormal(x, x.exp()), D.Normal(0.0, 1.0)).sum()


def no_divergence(x: torch.Tensor) -> Any:
    try:
        return D.kl_divergence(D.Normal(x, x.exp()), D.Gamma(x.exp(), x.exp()))
    except NotImplementedError as error:
        return str(error)


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize(
    ("program", "graphs"),
    [(divergence_of_normals, 1), (divergence_of_relatives, 1), (divergence_by_name, 2), (divergence_of_own, 2), (no_divergence, None)],
)
def test_the_first_divergence_of_two_classes_is_compiled_once(program: Callable[..., Any], graphs: int | None, validate: bool) -> None:
    """torch remembers the formula of two classes in the first call, which would be another than what the first call has seen."""
    D.Distribution.set_default_validate_args(validate)
    memory = D.kl._KL_MEMOIZE
    before = dict(memory)

    def outcome(call: Callable[..., Any]) -> Any:
        memory.clear()
        return [repr(call(X + number)) for number in range(3)], dict(memory)

    X = torch.arange(3.0)
    framejit.reset()
    try:
        assert outcome(framejit.compile(program, backend="eager")) == outcome(program)
    finally:
        memory.clear()
        memory.update(before)
    assert graphs in (None, framejit.statistics()["graphs"])
