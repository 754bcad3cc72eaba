"""Programs with Pyro: stochastic variational inference of small models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyro
import pyro.distributions as dist
import torch
import torch.nn.functional as F
from pyro import poutine
from pyro.infer import SVI, Predictive, Trace_ELBO, TraceEnum_ELBO, config_enumerate
from pyro.infer.autoguide import AutoDelta, AutoDiagonalNormal, AutoNormal
from pyro.nn import PyroModule, PyroSample
from torch import nn
from torch.distributions import constraints

from tools.bench.library_programs.program import Compile, program

ROWS = (8, 10, 8, 12)


def inferred(compiled: Compile, inference: SVI, data: Callable[[int], tuple[Any, ...]]) -> Iterator[Any]:
    """Steps of an inference, compiled whole, and the parameters after them."""
    step = compiled(inference.step)
    for rows in ROWS:
        yield step(*data(rows))
    yield dict(pyro.get_param_store().items())


def flips(rows: int) -> tuple[torch.Tensor]:
    return (torch.randint(0, 2, (rows,)).float(),)


def points(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(rows, 3), torch.randn(rows)


def coin(data: torch.Tensor) -> None:
    fairness = pyro.sample("fairness", dist.Beta(torch.tensor(10.0), torch.tensor(10.0)))
    with pyro.plate("flips", len(data)):
        pyro.sample("flip", dist.Bernoulli(fairness), obs=data)


def coin_guide(data: torch.Tensor) -> None:
    a = pyro.param("a", torch.tensor(15.0), constraint=constraints.positive)
    b = pyro.param("b", torch.tensor(15.0), constraint=constraints.positive)
    pyro.sample("fairness", dist.Beta(a, b))


@program
def fairness_of_a_coin(compiled: Compile) -> Iterator[Any]:
    """The introduction's coin: a Beta prior and a guide with constrained parameters."""
    return inferred(compiled, SVI(coin, coin_guide, pyro.optim.Adam({"lr": 0.01}), loss=Trace_ELBO()), flips)


class Regression(PyroModule):
    """A linear regression whose weights have priors."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = PyroModule[nn.Linear](3, 1)
        self.linear.weight = PyroSample(dist.Normal(0.0, 1.0).expand([1, 3]).to_event(2))
        self.linear.bias = PyroSample(dist.Normal(0.0, 10.0).expand([1]).to_event(1))

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        sigma, mean = pyro.sample("sigma", dist.Uniform(0.0, 10.0)), self.linear(x).squeeze(-1)
        with pyro.plate("data", x.shape[0]):
            pyro.sample("obs", dist.Normal(mean, sigma), obs=y)
        return mean


@program
def regression(compiled: Compile) -> Iterator[Any]:
    """A Bayesian regression with the guide AutoNormal."""
    network = Regression()
    return inferred(compiled, SVI(network, AutoNormal(network), pyro.optim.Adam({"lr": 0.01}), loss=Trace_ELBO()), points)


@program
def regression_prior(compiled: Compile) -> Iterator[Any]:
    """The regression called as a module, with weights from their priors."""
    call = compiled(Regression())
    for rows in ROWS[:3]:
        yield call(*points(rows))


@program
def predictions(compiled: Compile) -> Iterator[Any]:
    """Predictive samples of the regression after a step of inference."""
    network = Regression()
    guide = AutoDiagonalNormal(network)
    SVI(network, guide, pyro.optim.Adam({"lr": 0.01}), Trace_ELBO()).step(*points(8))
    predictive = Predictive(network, guide=guide, num_samples=3, return_sites=("obs", "_RETURN"))
    call = compiled(lambda x: predictive(x))
    for rows in ROWS[:3]:
        yield call(points(rows)[0])


class Autoencoder(nn.Module):
    """A variational autoencoder: a model with a decoder, and a guide with an encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.loc, self.scale = nn.Linear(8, 16), nn.Linear(16, 2), nn.Linear(16, 2)
        self.decoder = nn.Sequential(nn.Linear(2, 16), nn.Softplus(), nn.Linear(16, 8), nn.Sigmoid())

    def model(self, x: torch.Tensor) -> None:
        pyro.module("decoder", self.decoder)
        with pyro.plate("data", x.shape[0]):
            z = pyro.sample("latent", dist.Normal(x.new_zeros(x.shape[0], 2), x.new_ones(x.shape[0], 2)).to_event(1))
            pyro.sample("obs", dist.Bernoulli(self.decoder(z)).to_event(1), obs=x)

    def guide(self, x: torch.Tensor) -> None:
        pyro.module("encoder", self.encoder)
        pyro.module("loc", self.loc)
        pyro.module("scale", self.scale)
        with pyro.plate("data", x.shape[0]):
            hidden = F.softplus(self.encoder(x))
            pyro.sample("latent", dist.Normal(self.loc(hidden), self.scale(hidden).exp()).to_event(1))


@program
def autoencoder(compiled: Compile) -> Iterator[Any]:
    """A variational autoencoder."""
    network = Autoencoder()
    inference = SVI(network.model, network.guide, pyro.optim.Adam({"lr": 0.01}), loss=Trace_ELBO())
    return inferred(compiled, inference, lambda rows: (torch.rand(rows, 8).round(),))


@config_enumerate
def mixture(data: torch.Tensor) -> None:
    weights, scale = pyro.sample("weights", dist.Dirichlet(0.5 * torch.ones(2))), pyro.sample("scale", dist.LogNormal(0.0, 2.0))
    with pyro.plate("components", 2):
        locs = pyro.sample("locs", dist.Normal(0.0, 10.0))
    with pyro.plate("data", len(data)):
        component = pyro.sample("component", dist.Categorical(weights))
        pyro.sample("obs", dist.Normal(locs[component], scale), obs=data)


@program
def mixture_of_normals(compiled: Compile) -> Iterator[Any]:
    """A mixture of normals whose components are enumerated."""
    guide = AutoDelta(poutine.block(mixture, expose=["weights", "locs", "scale"]))
    inference = SVI(mixture, guide, pyro.optim.Adam({"lr": 0.01}), loss=TraceEnum_ELBO(max_plate_nesting=1))
    return inferred(compiled, inference, lambda rows: (torch.randn(rows),))


@program
def distributions(compiled: Compile) -> Iterator[Any]:
    """Samples, logarithms of densities and entropies of Pyro's distributions."""

    @compiled
    def computed(x: torch.Tensor) -> list[torch.Tensor]:
        normal = dist.Normal(x, 1.0).expand([2, *x.shape]).to_event(1)
        mixed = dist.MixtureSameFamily(dist.Categorical(torch.ones(2)), dist.Normal(torch.zeros(2), torch.ones(2)))
        changed = dist.TransformedDistribution(dist.Normal(0.0, 1.0), [dist.transforms.ExpTransform()])
        sample = normal.rsample()
        return [sample, normal.log_prob(sample), mixed.log_prob(x), changed.log_prob(x.exp()), dist.Categorical(logits=x).entropy()]

    for rows in (4, 6, 4):
        yield computed(torch.randn(rows))
