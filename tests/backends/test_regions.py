"""Parts of a graph that repeat are compiled once; whatever the layers do, results, gradients and changes are those of eager."""

from __future__ import annotations

import copy
import gc
import weakref
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import close
from torch import fx, nn
from torch.utils.checkpoint import checkpoint

import framejit
from framejit.backends import aot_eager
from framejit.backends.regions.repeats import repeats


class Counted:
    """A backend that notes the graphs which it compiles."""

    def __init__(self) -> None:
        self.graphs: list[fx.GraphModule] = []
        self.backend = replace(aot_eager.BACKEND, call=self.compile)

    def compile(self, gm: fx.GraphModule, inputs: Any) -> Any:
        self.graphs.append(gm)
        return aot_eager.compile_aot_eager(gm, inputs)


class Layer(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Stack(nn.Module):
    def __init__(self, layer: Any = Layer, count: int = 6) -> None:
        super().__init__()
        self.first, self.layers, self.last = nn.Linear(8, 8), nn.ModuleList([layer() for _ in range(count)]), nn.Linear(8, 3)

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return self.last(x)


class Dropping(Layer):
    def forward(self, x):
        return x + F.dropout(self.down(F.gelu(self.up(self.norm(x)))), 0.3, self.training)


class InPlace(Layer):
    def forward(self, x):
        h = self.up(self.norm(x))
        h += 1
        F.relu_(h)
        h = self.down(h)
        h.mul_(0.5)
        return h.add_(x)


class ChangesItsArgument(Layer):
    def forward(self, x):
        h = self.down(F.relu(self.up(self.norm(x))))
        x = x * 1
        x += h
        return x.mul_(0.5)


class ChangesTheOtherLayersResult(Layer):
    def forward(self, x):
        x += self.down(F.gelu(self.up(self.norm(x.clone()))))
        return x


class Batched(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8)


class Counting(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        return super().forward(x) * self.calls


class Checkpointed(Layer):
    def forward(self, x):
        return checkpoint(super().forward, x, use_reentrant=False)


class Unrecorded(Layer):
    def forward(self, x):
        with torch.no_grad():
            scale = self.norm(x).abs().mean()
        return super().forward(x) * scale


class Cast(Layer):
    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            h = self.up(self.norm(x))
        return x + self.down(F.gelu(h.float()))


class Several(Layer):
    def forward(self, x):
        a, b = self.up(self.norm(x)).chunk(2, -1)
        values, places = a.max(-1, keepdim=True)
        return x + self.down(torch.cat([a * values, b + places], -1))


class Constants(Layer):
    def forward(self, x):
        return super().forward(x) + torch.tensor([1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5])


LAYERS = [Layer, Dropping, InPlace, ChangesItsArgument, ChangesTheOtherLayersResult, Batched, Counting, Checkpointed, Unrecorded, Cast, Several, Constants]


class Tied(Stack):
    def __init__(self) -> None:
        super().__init__(count=1)

    def forward(self, x):
        x = self.first(x)
        for _ in range(6):
            x = self.layers[0](x)
        return self.last(x)


class OneDiffers(Stack):
    def __init__(self) -> None:
        super().__init__()
        self.layers[3] = Several()


class AllStates(Stack):
    def forward(self, x):
        states = [self.first(x)]
        for layer in self.layers:
            states.append(layer(states[-1]))
        return (self.last(states[-1]), *states)


class WithMask(Stack):
    def forward(self, x):
        mask = (x > 0).float().mean(-1, keepdim=True)
        x = self.first(x)
        for layer in self.layers:
            x = layer(x) * mask
        return self.last(x), mask


class Hooked(Stack):
    def __init__(self) -> None:
        super().__init__()
        self.layers[2].register_forward_hook(lambda module, args, result: result * 2)


class Functions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(8, 8) / 3) for _ in range(6)])

    def forward(self, x):
        for weight in self.weights:
            x = torch.tanh(x @ weight).sin() + x.cos() * 0.1
        return x


class WithoutGradients(Stack):
    def __init__(self) -> None:
        super().__init__()
        for layer in self.layers[:3]:
            layer.requires_grad_(False)
        self.first.requires_grad_(False)


class UnderInference(Stack):
    def forward(self, x):
        with torch.inference_mode():
            return super().forward(x).clone()


class Views(Stack):
    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x.unsqueeze(1)).view(1, -1, 8).squeeze(0)
        return x[1:], x.view(-1)


MODELS = [*[lambda layer=layer: Stack(layer) for layer in LAYERS], Tied, OneDiffers, AllStates, WithMask, Hooked, Functions, WithoutGradients, UnderInference, Views]
NAMES = [layer.__name__ for layer in LAYERS] + [model.__name__ for model in MODELS[len(LAYERS) :]]
WHOLE = {"ChangesTheOtherLayersResult"}
"""Those that aren't cut."""


def steps(model: nn.Module, run: Any, x: torch.Tensor, trains: bool) -> list[Any]:
    torch.manual_seed(1)
    found: list[Any] = []
    for _ in range(3):
        model.zero_grad()
        if not trains:
            with torch.no_grad():
                found.append(run(x.clone()))
            continue
        given = x.clone().requires_grad_()
        results = run(given)
        results = results if isinstance(results, tuple) else (results,)
        total = sum(result.float().pow(2).mean() for result in results if result.requires_grad)
        if isinstance(total, torch.Tensor):
            total.backward()
        found += [[result.detach() for result in results], given.grad, [parameter.grad for parameter in model.parameters()]]
    found.append([buffer.clone() for buffer in model.buffers()])
    return found


@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("make", MODELS, ids=NAMES)
def test_layers(request: pytest.FixtureRequest, make: Any, trains: bool) -> None:
    torch.manual_seed(0)
    model = make().train(trains)
    x = torch.randn(5, 8)
    expected = steps(twin := copy.deepcopy(model), twin, x, trains)
    counted = Counted()
    found = steps(model, framejit.compile(model, backend=counted.backend, fullgraph=True, regions=True), x, trains)
    close(found, expected, tolerance=1e-6)
    name = request.node.callspec.id.split("-")[0]
    assert (len(counted.graphs) == 1) == (name in WHOLE), [graph.code for graph in counted.graphs]
