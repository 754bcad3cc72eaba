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
from framejit.backends import aot_eager, inductor
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


STACKS = [Tied, OneDiffers, AllStates, WithMask, Hooked, Functions, WithoutGradients, UnderInference, Views]
MODELS = [*[lambda layer=layer: Stack(layer) for layer in LAYERS], *STACKS]
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


def test_repeats() -> None:
    layers = [0, 1, *[2, 3, 4] * 4, 5]
    (found,) = repeats(layers, [1] * (len(layers) + 1), 4)
    assert (found.start, found.period, found.count) == (2, 3, 4)
    crossing = [3] * (len(layers) + 1)
    crossing[3::3] = [1] * len(crossing[3::3])
    (found,) = repeats(layers, crossing, 4)
    assert list(found.cuts) == [3, 6, 9, 12]
    first, second = repeats([1, 2, 1, 2, 1, 2, 9, 3, 4, 3, 4, 3, 4], [0] * 14, 3)
    assert (first.start, first.count, second.start, second.count) == (0, 3, 7, 3)
    assert repeats(list(range(20)), [0] * 21, 3) == []


def compiled_graphs(model: nn.Module, *calls: torch.Tensor, **options: Any) -> list[fx.GraphModule]:
    counted = Counted()
    compiled = framejit.compile(model, backend=counted.backend, fullgraph=True, **options)
    for x in calls:
        close(compiled(x), model(x), tolerance=1e-6)
    return counted.graphs


def test_equal_layers_are_compiled_once() -> None:
    graphs = compiled_graphs(Stack(count=20), torch.randn(5, 8), regions=True)
    assert len(graphs) == 3  # what is before the layers, a layer, and what is after them
    assert sum(len(graph.graph.nodes) for graph in graphs) < 40


def test_a_layer_that_differs_is_compiled_separately() -> None:
    whole = len(compiled_graphs(OneDiffers(), torch.randn(5, 8), regions=False))
    assert whole == 1
    assert len(compiled_graphs(OneDiffers(), torch.randn(5, 8), regions=True)) == 4


@pytest.mark.parametrize("dynamic", [None, True])
def test_sizes_that_vary(dynamic: bool | None) -> None:
    class Reshaping(Layer):
        def forward(self, x):
            rows, columns = x.shape
            h = self.down(F.gelu(self.up(self.norm(x))))
            return x + h.view(columns, rows).t().reshape(rows * columns).view(rows, -1) * rows

    calls = [torch.randn(rows, 8) for rows in (5, 7, 3, 9)]
    whole = compiled_graphs(Stack(Reshaping), *calls, dynamic=dynamic, regions=False)
    cut = compiled_graphs(Stack(Reshaping), *calls, dynamic=dynamic, regions=True)
    assert len(cut) == 3 * len(whole) < 3 * len(calls)


def test_without_regions_and_where_it_does_not_pay() -> None:
    small = torch.randn(5, 8)
    assert len(compiled_graphs(Stack(count=20), small, regions=False)) == 1
    assert len(compiled_graphs(Stack(count=20), small)) == 1  # aot_eager compiles nothing, and these do little


@pytest.mark.parametrize("wrong", [1, "yes", 0])
def test_a_wrong_option(wrong: Any) -> None:
    with pytest.raises(framejit.BadArgument, match="regions must be None, True or False"):
        framejit.compile(Stack(), regions=wrong)


def test_options_that_differ_share_no_code() -> None:
    model, counted = Stack(), Counted()
    for regions in (False, True):
        framejit.compile(model, backend=counted.backend, regions=regions)(torch.randn(5, 8))
    assert len(counted.graphs) == 4


def test_values_are_freed_after_their_last_use() -> None:
    alive: list[int] = []
    seen: list[weakref.ref[torch.Tensor]] = []

    def compile_watching(gm: fx.GraphModule, inputs: Any) -> Any:
        fn = aot_eager.compile_aot_eager(gm, inputs)

        def run(*given: torch.Tensor) -> Any:
            alive.append(sum(reference() is not None for reference in seen))
            results = fn(*given)
            seen.extend(map(weakref.ref, results))
            return results

        return run

    with torch.no_grad():
        framejit.compile(Stack(count=10), backend=replace(aot_eager.BACKEND, call=compile_watching), regions=True)(torch.randn(5, 8))
    assert len(alive) == 12 and max(alive) <= 1


@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
def test_values_are_laid_out_as_in_the_trace(trains: bool) -> None:
    strides: list[Any] = []

    def compile_otherwise(gm: fx.GraphModule, inputs: Any) -> Any:
        fn = aot_eager.compile_aot_eager(gm, inputs)
        expected = [value.stride() for value in inputs]

        def run(*given: torch.Tensor) -> Any:
            strides.append(([value.stride() for value in given], expected))
            return [result.t().contiguous().t() for result in fn(*given)]

        return run

    torch.manual_seed(0)
    model, x = AllStates().train(trains), torch.randn(5, 8)
    expected = steps(twin := copy.deepcopy(model), twin, x, trains)
    backend = replace(aot_eager.BACKEND, call=compile_otherwise)
    close(steps(model, framejit.compile(model, backend=backend, regions=True), x, trains), expected, tolerance=1e-6)
    assert len(strides) == 3 * 8 and all(found == wanted for found, wanted in strides)


def test_pieces_are_freed() -> None:
    counted, model = Counted(), Stack()
    framejit.compile(model, backend=counted.backend, regions=True, isolate_recompiles=True)(torch.randn(5, 8))
    references = [weakref.ref(graph) for graph in counted.graphs]
    del counted, model
    gc.collect()
    assert len(references) == 3 and all(reference() is None for reference in references)


def test_gradients_that_reach_nothing_stay_undefined() -> None:
    class TwoHeads(Stack):
        def __init__(self):
            super().__init__()
            self.other = nn.Linear(8, 2)

        def forward(self, x):
            x = self.first(x)
            for layer in self.layers:
                x = layer(x)
            return self.last(x), self.other(x)

    model = TwoHeads()
    for which in (0, 1):
        model.zero_grad()
        framejit.compile(model, backend="aot_eager", regions=True)(torch.randn(5, 8))[which].sum().backward()
        assert (model.last.weight.grad is None) == (which == 1) and (model.other.weight.grad is None) == (which == 0)
        assert model.layers[0].up.weight.grad is not None


class DetachedInTheMiddle(Stack):
    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number == 2:
                x = x.detach()
        return (self.last(x),)


class Probed(Stack):
    """Each layer's result is also given, detached, to a linear layer that all share."""

    def forward(self, x):
        found = []
        for layer in self.layers:
            x = layer(x)
            found.append(self.last(x.detach()))
        return (x, *found)


@pytest.mark.parametrize("make", [DetachedInTheMiddle, Probed])
def test_layers_that_no_gradient_reaches_get_none(make: Any) -> None:
    torch.manual_seed(0)
    model = make()
    x, results = torch.randn(4, 8, requires_grad=True), []
    for call in (model, framejit.compile(model, backend="aot_eager", regions=True)):
        for index in (0, 1, -1):
            model.zero_grad()
            x.grad = None
            found = call(x)
            found[index % len(found)].sum().backward()
            results.append([None if tensor.grad is None else tensor.grad.clone() for tensor in (x, *model.parameters())])
    assert any(gradient is None for gradient in results[1])
    close(results[:3], results[3:], 1e-5)


def test_an_error_in_a_layer_leaves_the_call() -> None:
    class Looking(Layer):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.zeros(4, 8))

        def forward(self, x):
            return x + self.table[(x[:, :1] * 0).long().squeeze(-1) + (x[:, 0] > 50).long() * 9] + self.down(self.up(x))

    compiled = framejit.compile(Stack(Looking), backend="aot_eager", regions=True)
    x = torch.randn(5, 8)
    compiled(x)
    with pytest.raises(IndexError):
        compiled(x * 1e6)
    compiled(x)


@pytest.mark.slow
@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
def test_inductor_compiles_layers_once_where_it_pays(trains: bool) -> None:
    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Layer(256) for _ in range(20)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    torch.manual_seed(0)
    model = Wide().train(trains)
    x = torch.randn(128, 256)
    expected = steps(twin := copy.deepcopy(model), twin, x, trains)
    seen: list[fx.GraphModule] = []
    backend = inductor.BACKEND
    watched = replace(backend, call=lambda gm, inputs, **kwargs: (seen.append(gm), backend.call(gm, inputs, **kwargs))[1])
    found = steps(model, framejit.compile(model, backend=watched, fullgraph=True), x, trains)
    close(found, expected, tolerance=1e-4)
    assert 1 < len(seen) <= 3 and sum(len(gm.graph.nodes) for gm in seen) < 60
