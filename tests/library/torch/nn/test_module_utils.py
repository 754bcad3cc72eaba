"""torch.nn's tools around modules (parametrizations, norms of weights, pruning, lazy modules, containers, functional calls), trained, against eager."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune
from torch.utils._pytree import tree_leaves

import framejit

WHOLE: dict[str, Callable[[], nn.Module]] = {}
"""Makes a module that takes tensors of (3, 4), by name. Each is one graph."""
ELSEWHERE: dict[str, Callable[[], nn.Module]] = {}
"""Others, which are split in some call."""


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.full((1,), 2.0))

    def forward(self, x):
        return x * self.scale


def small(change: Callable[[nn.Module], Any] = lambda layer: None) -> nn.Module:
    layers = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    change(layers[0])
    return layers


def scaled_and_symmetric() -> nn.Module:
    layers = small(lambda layer: parametrize.register_parametrization(layer, "weight", Symmetric()))
    parametrize.register_parametrization(layers[0], "weight", Scaled())
    return layers


WHOLE |= {
    "parametrizations": scaled_and_symmetric,
    "orthogonal": lambda: small(parametrizations.orthogonal),
    "orthogonal by Householder": lambda: small(lambda layer: parametrizations.orthogonal(layer, orthogonal_map="householder")),
    "weight norm": lambda: small(parametrizations.weight_norm),
    "spectral norm": lambda: small(parametrizations.spectral_norm),
    "spectral norm in evaluation": lambda: small(parametrizations.spectral_norm).eval(),
    "old spectral norm": lambda: small(nn.utils.spectral_norm),
    "old weight norm": lambda: small(nn.utils.weight_norm),
    "pruned": lambda: small(lambda layer: prune.l1_unstructured(layer, "weight", amount=0.3)),
    "pruned by rows": lambda: small(lambda layer: prune.ln_structured(layer, "weight", 0.5, 2, 0)),
    "instance norm": lambda: nn.Sequential(nn.Unflatten(1, (2, 2)), nn.InstanceNorm1d(2, affine=True, track_running_stats=True)),
    "batch norm": lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU()),
    "converted to SyncBatchNorm": lambda: nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))).eval(),
    "lazy": lambda: nn.Sequential(nn.LazyLinear(5), nn.LazyBatchNorm1d(), nn.ReLU(), nn.LazyLinear(2)),
    "lazy convolutions": lambda: nn.Sequential(nn.Unflatten(1, (1, 4)), nn.LazyConv1d(2, 2), nn.Flatten(), nn.LazyLinear(2)),
}
ELSEWHERE |= {
    "lazy later": lambda: nn.Sequential(nn.LazyLinear(5), nn.Dropout(), nn.LazyLinear(2)),
    "batch norm by averages": lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=None)),
}


def whole(cls: type[nn.Module]) -> type[nn.Module]:
    WHOLE[cls.__name__] = cls
    return cls


def elsewhere(cls: type[nn.Module]) -> type[nn.Module]:
    ELSEWHERE[cls.__name__] = cls
    return cls


@whole
class ComputedOnce(nn.Module):
    """In a block of parametrize.cached()."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        parametrize.register_parametrization(self.layer, "weight", Symmetric())

    def forward(self, x):
        with parametrize.cached():
            return self.layer(self.layer(x))


@whole
class ParametersInContainers(nn.Module):
    def __init__(self):
        super().__init__()
        self.matrices = nn.ParameterList([torch.randn(4, 4) for _ in range(3)])
        self.vectors = nn.ParameterDict({"add": torch.randn(4), "times": torch.randn(4)})

    def forward(self, x):
        for matrix in self.matrices:
            x = x @ matrix
        for name, vector in self.vectors.items():
            x = x + vector if name == "add" else x * vector
        return x + self.matrices[-1].sum() + self.vectors["add"]


@elsewhere
class ParametersAdded(nn.Module):
    def __init__(self):
        super().__init__()
        self.list = nn.ParameterList([torch.ones(4), torch.ones(4)])
        self.dict = nn.ParameterDict({"a": torch.ones(4), "z": torch.ones(4)})

    def forward(self, x):
        if "z" in self.dict:
            self.dict.pop("z")
            self.dict["b"] = nn.Parameter(torch.full((4,), 3.0))
            self.list.append(nn.Parameter(torch.full((4,), 0.2)))
            self.list[0] = nn.Parameter(torch.full((4,), 0.5))
        for parameter in self.list:
            x = x * parameter
        return x + self.dict["b"] + self.dict["a"]


@whole
class ModulesInContainers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.acts = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = self.acts["relu" if i % 2 else "tanh"](layer(x))
        for _, layer in self.layers.named_children():
            x = x + layer.bias
        return self.layers[0](x) + len(self.layers)


@elsewhere
class ModulesAdded(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4)])
        self.acts = nn.ModuleDict({"relu": nn.ReLU()})
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls == 2:
            self.layers.append(nn.Linear(4, 4))
            self.acts["tanh"] = nn.Tanh()
            self.add_module("last", nn.Linear(4, 4))
        for layer in self.layers:
            x = layer(x)
        for act in self.acts.values():
            x = act(x)
        return self.last(x) if hasattr(self, "last") else x


@elsewhere
class BuffersRegistered(nn.Module):
    """In the first call; compiled once more for the second one."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        if not hasattr(self, "mean"):
            self.register_buffer("mean", torch.zeros(4))
            self.register_buffer("last", None, persistent=False)
        self.mean.mul_(0.9).add_(x.detach().mean(0) * 0.1)
        self.last = x.detach() * 2
        return self.layer(x - self.mean)


@whole
class Averages(nn.Module):
    """Of its results and, as in a teacher, of its parameters."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.teacher = copy.deepcopy(self.layer).requires_grad_(False)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        y = self.layer(x)
        with torch.no_grad():
            self.mean.lerp_(y.mean(0), 0.1)
            self.calls += 1
            for mine, theirs in zip(self.teacher.parameters(), self.layer.parameters(), strict=True):
                mine.mul_(0.9).add_(theirs, alpha=0.1)
            target = self.teacher(x)
        self.mean = self.mean * 0.99
        return F.mse_loss(y, target) + self.mean


@whole
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(4, 5, bias=False), nn.Linear(5, 4, bias=False)
        self.out.weight = nn.Parameter(self.into.weight.detach().t().contiguous())
        self.again = nn.Linear(4, 5)
        self.again.weight = self.into.weight

    def forward(self, x):
        return self.again(self.out(self.into(x).tanh()))


@whole
class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))

    def forward(self, x):
        parameters = {name: value * 1.5 for name, value in self.inner.named_parameters()}
        buffers = {name: value.clone() for name, value in self.inner.named_buffers()}
        y = torch.func.functional_call(self.inner, (parameters, buffers), (x,))
        return y + self.inner(x) + buffers["1.running_mean"]


@whole
class FunctionalTied(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Tied()

    def forward(self, x):
        return torch.func.functional_call(self.inner, {"into.weight": self.inner.into.weight * 2}, (x,), tie_weights=True)


@elsewhere
class Stateless(nn.Module):
    """The old name of a functional call warns."""

    def __init__(self):
        super().__init__()
        self.inner = small()

    def forward(self, x):
        return torch.nn.utils.stateless.functional_call(self.inner, {"0.weight": self.inner[0].weight * 2}, x)


@whole
class AsOneVector(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = small()

    def forward(self, x):
        return self.inner(x) + nn.utils.parameters_to_vector(self.inner.parameters()).pow(2).sum()


@elsewhere
class FromOneVector(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = small()

    def forward(self, x):
        with torch.no_grad():
            vector = nn.utils.parameters_to_vector(self.inner.parameters())
            nn.utils.vector_to_parameters(vector * 0.9, self.inner.parameters())
        return self.inner(x)


@elsewhere
class ResetOnce(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.calls = small(), 0

    def forward(self, x):
        self.calls += 1
        if self.calls == 2:
            self.inner[0].reset_parameters()
        return self.inner(x)


@elsewhere
class RecurrentWithWeightNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = parametrizations.weight_norm(nn.LSTM(4, 3), "weight_hh_l0")

    def forward(self, x):
        return self.net(x)[0]


class Attending(nn.Module):
    def __init__(self, net: nn.Module, **kwargs: Any) -> None:
        super().__init__()
        self.net, self.kwargs = net, kwargs

    def forward(self, x):
        x = x.unsqueeze(1)
        return self.net(x, x, x, **self.kwargs) if isinstance(self.net, nn.MultiheadAttention) else self.net(x, x, **self.kwargs)


MASK = torch.ones(3, 3, dtype=torch.bool).triu(1)
WHOLE |= {
    "attention": lambda: Attending(nn.MultiheadAttention(4, 2, dropout=0.3)),
    "causal attention": lambda: Attending(nn.MultiheadAttention(4, 2), attn_mask=MASK, is_causal=True, need_weights=False),
    "attention with bias": lambda: Attending(nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True).eval(), key_padding_mask=MASK[:1]),
    "transformer": lambda: Attending(nn.Transformer(4, 2, 1, 1, 8), tgt_mask=MASK, tgt_is_causal=True),
    "decoder": lambda: Attending(nn.TransformerDecoderLayer(4, 2, 8, norm_first=True, activation="gelu")),
    "encoder in evaluation": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2).requires_grad_(False).eval(),
}


def seen_of(value: Any) -> list[Any]:
    found = [value] if isinstance(value, torch.Tensor) else [tensor for tensor in value if tensor is not None]
    return [(tensor.detach().clone(), tensor.requires_grad, tensor.stride()) for tensor in found]


def trained(make: Callable[[], nn.Module], compile: Callable[..., Any], inside: bool) -> list[Any]:
    """Return results, gradients and states of four training steps. `inside`: the whole step is compiled, rather than the module alone."""
    torch.manual_seed(0)
    module = make()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1) if inside else None
    called = module if inside else compile(module)

    def step(x: torch.Tensor) -> Any:
        result = called(x)
        loss = (result if isinstance(result, torch.Tensor) else result[0]).pow(2).sum() + x.sum()
        loss.backward()
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()
        return result

    run, seen = compile(step) if inside else step, []
    for seed in range(4):
        torch.manual_seed(seed)
        x = torch.randn(3, 4, requires_grad=True)
        seen += [seen_of(run(x)), x.grad, torch.rand(2)]
        with torch.no_grad():
            for parameter in module.parameters():
                if parameter.grad is not None and not inside:
                    parameter -= parameter.grad * 0.1
        seen += [{name: (value.detach().clone(), value.grad) for name, value in module.named_parameters()}]
        seen += [{name: value.clone() for name, value in module.named_buffers()}, sorted(module.state_dict()), type(module).__name__]
        module.zero_grad()
    return seen


INSIDE = ("parametrizations", "spectral norm", "batch norm", "ParametersInContainers", "Averages", "Tied", "Functional", "AsOneVector", "attention")


CASES = [
    *((name, False, backend) for name in WHOLE for backend in ("eager", "aot_eager")), *((name, False, "eager") for name in ELSEWHERE),
    *((name, False, "aot_eager") for name in ("lazy later", "ModulesAdded", "RecurrentWithWeightNorm")), *((name, True, "aot_eager") for name in INSIDE),
]  # fmt: skip


@pytest.mark.parametrize(("name", "inside", "backend"), CASES)
@pytest.mark.filterwarnings("ignore:Lazy modules", "ignore:.*weight_norm", "ignore:.*functional_call", "ignore:enable_nested_tensor", "ignore:dropout option")
def test_training(name: str, inside: bool, backend: str) -> None:
    make, told = (WHOLE | ELSEWHERE)[name], []
    for compile in (lambda f: f, lambda f: framejit.compile(f, backend=backend)):
        framejit.reset()
        told.append(trained(make, compile, inside))
    tolerance = {"rtol": 0, "atol": 0} if backend == "eager" else {"rtol": 1e-5, "atol": 1e-6}  # AOTAutograd adds gradients up in another order
    for expected, found in zip(*map(tree_leaves, told), strict=True):
        if isinstance(expected, torch.Tensor):
            torch.testing.assert_close(found, expected, equal_nan=True, **tolerance)
        else:
            assert found == expected
    statistics = framejit.statistics()
    assert statistics["fallbacks"] == (name == "lazy later"), statistics  # its first call
    if name in WHOLE:
        assert statistics["graphs"] == 1 and not statistics["reasons"], statistics
