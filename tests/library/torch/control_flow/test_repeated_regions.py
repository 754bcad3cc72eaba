"""Regions that are traced once for all that are called alike, and traced again where something is different that the trace rests on."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import MethodType
from typing import Any

import pytest
import torch
from torch import nn

import framejit
from framejit.library.torch.inner_graphs.inner_function import Functions

GLOBAL = {"scale": 1.0}


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.linear(x)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.norm, self.drop = Inner(), Inner(), nn.LayerNorm(4), nn.Dropout(0.0)
        self.scale, self.activation, self.options = 2.0, torch.relu, {"power": 2, "names": ["a", "b"]}
        self.register_buffer("offset", torch.ones(4))

    @torch.compiler.nested_compile_region
    def forward(self, x: Any, tables: Any, double: bool = False) -> Any:
        sine, cosine = tables
        y = self.activation(self.first(x) * sine + self.second(x) * cosine) * self.scale + self.offset
        if self.first.linear.weight is self.second.linear.weight:
            y = y * 3
        if sine is cosine:
            y = y - 1
        y = self.drop(self.norm(y)) ** self.options["power"] + len(self.options["names"]) * GLOBAL["scale"]
        return (y * 2 if double else y) + (x.shape[-1] if self.training else 0)


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(Layer() for _ in range(2))

    def forward(self, x: Any) -> Any:
        tables = x.sin(), x.cos()
        x = x * 1
        for layer in self.layers:
            x = layer(x, tables, double=True)
        return x


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The functions that have been traced as graphs inside the graph."""
    found: list[Any] = []
    original = Functions.traced
    monkeypatch.setattr(Functions, "traced", lambda self, function, *args: found.append(function) or original(self, function, *args))
    return found


def answers(model: Callable[..., Any], module: nn.Module, x: torch.Tensor, training: bool) -> list[Any]:
    """A result, and all gradients if the module is trained."""
    if not training:
        with torch.no_grad():
            return [model(x)]
    module.zero_grad()
    result = model(x.detach().requires_grad_())
    result.sum().backward()
    return [result.detach(), *[parameter.grad for parameter in module.parameters()]]


def check(compiled: Any, stack: nn.Module, training: bool = False) -> None:
    """The compiled model gives what it gives as written."""
    x = torch.randn(2, 4)
    plain = copy.deepcopy(stack)
    torch.testing.assert_close(answers(compiled, stack, x, training), answers(plain, plain, x, training))


def test_layers_are_traced_once(traced: list[Any]) -> None:
    framejit.reset()
    stack = Stack()
    compiled = framejit.compile(stack, backend="aot_eager")
    check(compiled, stack, training=True)
    assert len(traced) == 1
    check(compiled, stack)
    assert framejit.statistics()["graphs"] == len(traced) == 2


class Drops(Stack):
    """Layers that drop what they compute; one of them computes for nothing."""

    def __init__(self) -> None:
        super().__init__()
        for layer in self.layers:
            layer.drop.p = 0.5

    def forward(self, x: Any) -> Any:
        self.layers[1](x, (x, x + 1))
        return super().forward(x)


def loss(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return module(x).sum()


def whole_step(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    found = loss(module, x)
    found.backward()
    return found.detach()


@pytest.mark.parametrize(("step", "backend"), [(loss, "aot_eager"), (whole_step, "aot_eager"), (whole_step, "eager")])
def test_layers_that_drop_are_traced_once(traced: list[Any], step: Callable[..., torch.Tensor], backend: str) -> None:
    """The masks of the forward pass are those of the backward pass, also where the graph has one of its own; what is drawn for nothing is drawn."""
    if torch.__version__ < "2.13" and step is loss:
        pytest.skip("torch 2.11's AOTAutograd fails on regions that draw: the graph is left to autograd")
    framejit.reset()
    found = []
    for compiled in (step, framejit.compile(step, backend=backend)):
        torch.manual_seed(0)
        module = Drops()
        for _ in range(2):
            module.zero_grad()
            result = compiled(module, torch.randn(2, 4, requires_grad=True))
            if result.requires_grad:
                result.backward()
        found.append([result.detach(), *[parameter.grad for parameter in module.parameters()], torch.rand(2)])
    torch.testing.assert_close(found[1], found[0])
    assert framejit.statistics()["graphs"] == 1 and len(traced) == (2 if backend == "aot_eager" else 0)


@pytest.mark.slow
def test_layers_that_drop_with_inductor() -> None:
    """Each draws a mask of its own, and the backward pass uses it."""
    framejit.reset()

    class Drop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(64))

        @torch.compiler.nested_compile_region
        def forward(self, x: Any) -> Any:
            return nn.functional.dropout(x * self.weight, 0.5)

    layers = [Drop() for _ in range(3)]
    results = framejit.compile(lambda x: [layer(x) for layer in layers], fullgraph=True)(torch.ones(64))
    sum([result.sum() for result in results]).backward()
    torch.testing.assert_close([layer.weight.grad for layer in layers], [result.detach() for result in results])
    assert not results[0].equal(results[1])


def another_scale(stack: Stack) -> None:
    stack.layers[1].scale = 3.0


def another_function(stack: Stack) -> None:
    stack.layers[1].activation = torch.tanh


def another_power(stack: Stack) -> None:
    stack.layers[1].options["power"] = 3.0


def another_length(stack: Stack) -> None:
    stack.layers[1].options["names"].append("c")


def without_bias(stack: Stack) -> None:
    stack.layers[1].first.linear.bias = None


def another_class(stack: Stack) -> None:
    stack.layers[1].norm = nn.Softmax(-1)


def another_type_of_numbers(stack: Stack) -> None:
    stack.layers[1].offset = torch.ones(4, dtype=torch.int64)


def without_dimension(stack: Stack) -> None:
    stack.layers[1].offset = torch.ones(())


def in_evaluation(stack: Stack) -> None:
    stack.layers[1].eval()


def one_weight(stack: Stack) -> None:
    stack.layers[1].first.linear.weight = stack.layers[1].second.linear.weight


def one_module(stack: Stack) -> None:
    stack.layers[1].first = stack.layers[1].second


def with_hook(stack: Stack) -> None:
    stack.layers[1].norm.register_forward_hook(lambda module, args, result: result * 2)


def with_a_method_of_its_own(stack: Stack) -> None:
    stack.layers[1].first.forward = MethodType(lambda self, x: self.linear(x) * 2, stack.layers[1].first)


def frozen(stack: Stack) -> None:
    stack.layers[1].first.requires_grad_(False)


VARIATIONS = (
    another_scale, another_function, another_power, another_length, without_bias, another_class, another_type_of_numbers, without_dimension,
    in_evaluation, one_weight, one_module, with_hook, with_a_method_of_its_own, frozen,
)  # fmt: skip


@pytest.mark.parametrize("vary", VARIATIONS)
def test_layer_that_differs(vary: Callable[[Stack], None], traced: list[Any]) -> None:
    """The second layer isn't like the first: from the second call on, of an entry that was made with one trace."""
    stack, training = Stack(), vary is frozen
    compiled = framejit.compile(stack, backend="aot_eager")
    check(compiled, stack, training)
    assert len(traced) == 1
    vary(stack)
    check(compiled, stack, training)
    assert len(traced) == 3


def test_layers_that_share(traced: list[Any]) -> None:
    """Parameters of two layers may be the same: the graph is given them twice, or once to each."""
    stack = Stack()
    stack.layers[1].first = stack.layers[0].first
    stack.layers.append(stack.layers[0])
    check(framejit.compile(stack, backend="aot_eager"), stack)
    assert len(traced) == 1


def test_arguments_that_hang_together_otherwise(traced: list[Any]) -> None:
    layer = Layer()

    def program(x: torch.Tensor) -> torch.Tensor:
        a, b = x.sin(), x.cos()
        return layer(x * 1, (a, b)) + layer(x * 2, (b, b)) + layer(x * 3, (b, a)) + layer(x * 4, (a, b), double=True)

    x = torch.randn(2, 4)
    with torch.no_grad():
        torch.testing.assert_close(framejit.compile(program, backend="aot_eager")(x), program(x))
    assert len(traced) == 3


def test_side_effects_between(traced: list[Any]) -> None:
    """Globals that a region reads may change between its calls."""
    stack = Stack()

    def program(x: torch.Tensor) -> torch.Tensor:
        tables = x.sin(), x.cos()
        for layer in stack.layers:
            x = layer(x, tables)
            GLOBAL["scale"] += 1
        GLOBAL["scale"] = 1.0
        return x

    x = torch.randn(2, 4)
    with torch.no_grad():
        torch.testing.assert_close(framejit.compile(program, backend="aot_eager")(x), program(x))
    assert GLOBAL == {"scale": 1.0}
    assert len(traced) == 2


STACKS: list[Any] = []


class UsesFirst(Layer):
    """Uses the first layer's buffer, whichever layer it is."""

    @torch.compiler.nested_compile_region
    def forward(self, x: Any, tables: Any, double: bool = False) -> Any:
        return self.first(x) * STACKS[0].layers[0].offset


@pytest.mark.parametrize("by_global", [False, True])
def test_a_region_that_reaches_another_ones_module(traced: list[Any], by_global: bool) -> None:
    framejit.reset()
    stack = Stack()
    stack.layers = nn.ModuleList(UsesFirst() for _ in range(3))
    STACKS[:] = [stack]
    for index, layer in enumerate(stack.layers):
        layer.offset *= index + 2
    compiled = framejit.compile((lambda x: STACKS[0](x)) if by_global else stack, backend="aot_eager")
    with torch.no_grad():
        x = torch.randn(2, 4)
        torch.testing.assert_close(compiled(x), stack(x))
    assert len(traced) == 3
