"""Operators that programs define themselves, scripted functions, and what a program tells its compiler about single functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from tools.bench.feature_cases.feature import feature

# Custom operators.


@torch.library.custom_op("framejit_features::numpy_sin", mutates_args=())
def numpy_sin(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.sin(x.detach().numpy()))


@numpy_sin.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


numpy_sin.register_autograd(
    lambda ctx, gradient: gradient * ctx.saved_tensors[0].cos(),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


@numpy_sin.register_vmap
def numpy_sin_batched(info: Any, in_dims: Any, x: torch.Tensor) -> Any:
    return numpy_sin(x), in_dims[0]


@feature("a custom_op with a fake and a gradient")
def custom_op(x: torch.Tensor) -> Any:
    return numpy_sin(x * 2) + 1


@torch.library.custom_op("framejit_features::accumulate_", mutates_args={"total"})
def accumulate_(total: torch.Tensor, x: torch.Tensor, factor: float = 1.0) -> None:
    total.numpy()[...] += x.numpy() * factor


@feature("a custom_op that changes its argument", lambda: (torch.zeros(4), torch.randn(4)))
def mutating(total: torch.Tensor, x: torch.Tensor) -> Any:
    accumulate_(total, x)
    inner = torch.zeros(4)
    accumulate_(inner, total, factor=2.0)
    return inner + total


@torch.library.custom_op("framejit_features::several", mutates_args=())
def several(xs: list[torch.Tensor], sizes: list[int], scale: float | None, mode: str = "sum") -> tuple[torch.Tensor, list[torch.Tensor]]:
    total = sum(x.sum() for x in xs) * (1.0 if scale is None else scale)
    return total if mode == "sum" else total / 2, [torch.full((size,), 2.0) for size in sizes]


@several.register_fake
def _(xs: list[torch.Tensor], sizes: list[int], scale: float | None, mode: str = "sum") -> Any:
    return xs[0].new_empty(()), [xs[0].new_empty((size,)) for size in sizes]


@feature("a custom_op of lists, optional numbers and texts", lambda: (torch.randn(3), torch.randn(2)))
def lists(x: torch.Tensor, y: torch.Tensor) -> Any:
    total, made = several([x, y], [2, 3], None, mode="mean")
    return total + several([x], [], 2.0)[0], made[0] + made[1][:2]


@torch.library.custom_op("framejit_features::nonzeros", mutates_args=())
def nonzeros(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.stack(np.nonzero(x.numpy()), 1))


@nonzeros.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    size = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty((size, x.dim()), dtype=torch.int64)


@feature("a custom_op whose result's size depends on data", lambda: (torch.randn(5),))
def dynamic_size(x: torch.Tensor) -> Any:
    return nonzeros((x > 0).float()) * 2


@torch.library.custom_op("framejit_features::without_fake", mutates_args=())
def without_fake(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.cos(x.numpy()))


@feature("a custom_op without a fake", lambda: (torch.randn(5),))
def no_fake(x: torch.Tensor) -> Any:
    return without_fake(x * 2) + 1


@feature("a custom_op under vmap", lambda: (torch.randn(4, 3),))
def under_vmap(x: torch.Tensor) -> Any:
    return torch.vmap(numpy_sin)(x) * 2


library = torch.library.Library("framejit_features_defined", "DEF")
library.define("scaled(Tensor x, float scale=2.0) -> Tensor")
library.impl("scaled", lambda x, scale=2.0: torch.from_numpy(x.detach().numpy() * scale), "CPU")
torch.library.register_fake("framejit_features_defined::scaled", lambda x, scale=2.0: torch.empty_like(x), lib=library)
library.define("composed(Tensor x, Tensor? y=None) -> Tensor")
library.impl("composed", lambda x, y=None: x.sin() + (x if y is None else y), "CompositeImplicitAutograd")
library.define("part(Tensor(a) x) -> Tensor(a)")
library.impl("part", lambda x: x[1:], "CompositeImplicitAutograd")
library.define("add.Tensor(Tensor x, Tensor y) -> Tensor")
library.define("add.Scalar(Tensor x, float y) -> Tensor")
library.impl("add.Tensor", lambda x, y: x + y, "CompositeExplicitAutograd")
library.impl("add.Scalar", lambda x, y: x + y + 1, "CompositeExplicitAutograd")
torch.library.register_autograd(
    "framejit_features_defined::scaled",
    lambda ctx, gradient: (gradient * ctx.scale, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "scale", inputs[1]),
    lib=library,
)


@feature("operators defined with torch.library.Library")
def defined(x: torch.Tensor) -> Any:
    ops = torch.ops.framejit_features_defined
    return ops.scaled(x, 3.0) + ops.scaled.default(x) + ops.composed(x) + torch.ops.framejit_features_defined.composed.default(x, y=x * 2)


@feature("an operator defined that gives a view", lambda: (torch.randn(4),))
def view(x: torch.Tensor) -> Any:
    y = x * 2
    part = torch.ops.framejit_features_defined.part(y)
    part.add_(1)
    return y, part


@feature("overloads of an operator defined", lambda: (torch.randn(4),))
def overloads(x: torch.Tensor) -> Any:
    ops = torch.ops.framejit_features_defined
    names = ops.add.overloads()
    return ops.add(x, x), ops.add(x, 2.0), ops.add.Scalar(x, 3.0), getattr(ops, "add").Tensor(x, x), len(names), ops.add._qualified_op_name


@feature("torch.ops.aten packets and overloads")
def aten(x: torch.Tensor) -> Any:
    aten = torch.ops.aten
    return aten.add.Tensor(x, x, alpha=2), aten.mul(x, 3), aten.sum.dim_IntList(x, [0], True), aten.var_mean.correction(x, [1], correction=0), aten.mm(x, x.t())


# Scripted functions and modules.


@torch.jit.script
def scripted(x: torch.Tensor, n: int = 2) -> torch.Tensor:
    y = x
    for _ in range(n):
        y = y.sin() * 2
    return y


@torch.jit.script
def routed(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if bool(x.sum() > 0):
        return x * 2, x
    return x * 3, x + 1


@feature("a scripted function")
def script_function(x: torch.Tensor) -> Any:
    return scripted(x + 1) + scripted(x, 3) * scripted(x, n=1)


@feature("a scripted function that goes by its data")
def script_routes(x: torch.Tensor) -> Any:
    a, b = routed(x + 1)
    return a * b


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.scale = 3.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() == 2:
            x = self.linear(x)
        return x * self.scale


def a_scripted_layer() -> Any:
    return torch.jit.script(Layer()), torch.randn(4, 6, requires_grad=True)


@feature("a scripted module", a_scripted_layer)
def script_module(module: nn.Module, x: torch.Tensor) -> Any:
    return module(x + 1) * 2


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scripted = torch.jit.script(Layer())
        self.traced = torch.jit.trace(nn.Linear(6, 6), torch.randn(4, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.traced(self.scripted(x).relu()) + x


@feature("scripted and traced modules in a model", lambda: (Model(), torch.randn(4, 6)))
def script_in_model(module: nn.Module, x: torch.Tensor) -> Any:
    return module(x)


# What a program says about functions.


@torch.compiler.allow_in_graph
def allowed(x: torch.Tensor, options: dict[str, Any]) -> Any:
    return {"a": x * options["scale"], "b": (x + 1, 3)}


@torch.compiler.allow_in_graph
def allowed_plainly(x: torch.Tensor, n: int) -> torch.Tensor:
    return x.sin() * n


@feature("allow_in_graph")
def allow(x: torch.Tensor) -> Any:
    return allowed_plainly(x + 1, 3) * 2


@feature("allow_in_graph of a function that takes a dict")
def allow_a_dict(x: torch.Tensor) -> Any:
    found = allowed(x + 1, {"scale": 2.0})
    return found["a"] + found["b"][0]


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 3 * ctx.saved_tensors[0] ** 2


torch.compiler.allow_in_graph(Cube)


@feature("allow_in_graph of an autograd.Function")
def allow_a_function(x: torch.Tensor) -> Any:
    return Cube.apply(x * 2) + 1


class Pair:
    def __init__(self, first: torch.Tensor, second: float) -> None:
        self.first, self.second = first, second


torch.utils._pytree.register_pytree_node(Pair, lambda pair: ([pair.first], pair.second), lambda parts, second: Pair(*parts, second))
weights = {"weight": torch.full((6,), 2.0)}


@torch._dynamo.nonstrict_trace
def nonstrict(pair: Pair, options: dict[str, Any]) -> Any:
    torch._dynamo.graph_break()
    return [pair.first * weights["weight"] * pair.second, {"doubled": options["x"] * 2}]


@feature("nonstrict_trace with pytrees and globals")
def nonstrict_trace(x: torch.Tensor) -> Any:
    first, rest = nonstrict(Pair(x + 1, 3.0), {"x": x})
    return first + rest["doubled"]


def counted(x: torch.Tensor) -> torch.Tensor:
    return x * 2


torch._dynamo.disallow_in_graph(torch.special.expm1)


@feature("disallow_in_graph")
def disallow(x: torch.Tensor) -> Any:
    return torch.special.expm1(x + 1) * 2


class Native:
    """A callable of a library's in C, as far as a tracer can tell."""


def foreign(x: Any, y: Any) -> Any:
    return eval("x + y")


@torch.compiler.substitute_in_graph(foreign, skip_signature_check=True)
def foreign_in_python(x: Any, y: Any) -> Any:
    return x + y


@feature("substitute_in_graph")
def substitute(x: torch.Tensor) -> Any:
    return foreign(x, 1) * foreign(x, x)


@torch.compiler.assume_constant_result
def configured(name: str) -> int:
    with open("/proc/self/comm") as file:
        return len(name) + (1 if file.read() else 0)


@feature("assume_constant_result")
def constant_result(x: torch.Tensor) -> Any:
    return x * configured("width")


class Configured:
    def __init__(self) -> None:
        self.values = {"width": 3}

    @torch.compiler.assume_constant_result
    def get(self, name: str) -> int:
        return self.values[name] + len(open("/proc/self/comm").read()) * 0


configured_once = Configured()


@feature("assume_constant_result of a method", lambda: (configured_once, torch.randn(3)))
def constant_method(config: Configured, x: torch.Tensor) -> Any:
    return x * config.get("width")


@torch.compiler.disable
def logged(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@feature("torch.compiler.disable")
def disabled(x: torch.Tensor) -> Any:
    return logged(x + 1) * 2
