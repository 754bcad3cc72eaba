"""torch's operators that run a function once: regions that are compiled once for all alike, strict_mode, hints, wrappers, out_dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from operators import BACKENDS, compare
from torch import fx, nn
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph
from torch._higher_order_ops.out_dtype import out_dtype
from torch._higher_order_ops.strict_mode import strict_mode
from torch._higher_order_ops.wrap import wrap, wrap_with_autocast, wrap_with_set_grad_enabled

import framejit
from framejit.backends import aot_eager
from framejit.backends.eager import compile_eager

region = torch.compiler.nested_compile_region


def as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)

    def forward(self, x: Any, scale: Any = 1) -> Any:
        return self.norm(self.linear(x).relu()) * scale + x


torch.manual_seed(0)
LAYERS = [Layer() for _ in range(3)]


def calls() -> list[tuple[torch.Tensor, ...]]:
    torch.manual_seed(1)
    return [(torch.randn(3, 4, requires_grad=True), torch.randn(4, requires_grad=True)) for _ in range(2)]


def layers(mark, x, w):
    block = mark(lambda layer, x: layer(x))
    for layer in LAYERS:
        x = block(layer, x)
    return x * w


def keywords_and_several_results(mark, x, w):
    @mark
    def block(x, scale, name=None):
        return {"x": x * scale, "same": x, name: (x + w, 3)}

    found = block(x, scale=w, name="more")
    return found, block(found["x"], 2.0)["same"]


def regions_in_regions(mark, x, w):
    inner = mark(lambda y: (y * w).sin())
    outer = mark(lambda y: inner(inner(y)) + 1)
    return outer(outer(x))


def random_numbers(mark, x, w):
    block = mark(lambda y: nn.functional.dropout(y * w, 0.5))
    return block(block(x)) + torch.rand(4)


def changes(mark, x, w):
    buffer = torch.zeros(4)

    @mark
    def block(y):
        buffer.add_(1)
        return y * buffer.clone()

    return block(block(x)), buffer


def side_effects(mark, x, w):
    seen = []

    @mark
    def block(y):
        seen.append(len(seen))
        return y * w

    return block(block(x)), seen


def attention(mark, x, w):
    """Attention was taken to draw random numbers, whatever its `dropout_p`."""
    block = mark(lambda y: nn.functional.scaled_dot_product_attention(y[None], y[None] * w, y[None], is_causal=True)[0])
    return block(block(x * w))


def attention_that_drops(mark, x, w):
    block = mark(lambda y: nn.functional.scaled_dot_product_attention(y[None], y[None] * w, y[None], dropout_p=0.5)[0])
    return block(block(x * w))


def under_several_modes(mark, x, w):
    """The region of the first mode was taken for all: gradients and autocast were lost."""
    block = mark(lambda y: (y @ torch.diag(w)).sin())
    with torch.no_grad():
        a = block(x)
    b = block(x)
    with torch.autocast("cpu", torch.bfloat16):
        c = block(x)
    return a, b, c, block(x)


def what_it_is_given(mark, x, w):
    """A region gave copies of its arguments, and of views of them."""
    block = mark(lambda y: (y, y[0], y + 2))
    y = x * 1
    same, row, z = block(y)
    row.mul_(3)
    z.add_(1)
    return same is y, y, row, z, block(w)[0] is w


PROGRAMS = (
    layers, keywords_and_several_results, regions_in_regions, random_numbers, changes, side_effects, attention, attention_that_drops,
    under_several_modes, what_it_is_given,
)  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_regions(program: Callable[..., Any], backend: str) -> None:
    compare(program, region, as_it_is, calls(), backend)


def graphs_of(program: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> list[fx.GraphModule]:
    """The graphs that AOTAutograd makes of a program without gradients."""
    graphs: list[fx.GraphModule] = []
    monkeypatch.setattr(aot_eager, "compile_eager", lambda gm, examples: graphs.append(gm) or compile_eager(gm, examples))
    with torch.no_grad():
        framejit.compile(lambda x, w: program(region, x, w), backend="aot_eager")(*[arg.detach() for arg in calls()[0]])
    return graphs


def regions_of(gm: fx.GraphModule) -> list[str]:
    return [node.args[1] for node in gm.graph.nodes if node.target is torch.ops.higher_order.invoke_subgraph]


def test_regions_that_are_alike_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    (gm,) = graphs_of(layers, monkeypatch)
    assert regions_of(gm) == ["region_0"] * 3
    (gm,) = graphs_of(attention, monkeypatch)
    assert regions_of(gm) == ["region_0"] * 2


@pytest.mark.skipif(torch.__version__ < "2.13", reason="torch 2.11 asks for each call")
def test_schemas_are_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """If gradients are recorded, torch's operator traces a region's graph for its schema: once for all regions that are alike, rather than at each call."""
    asked: list[str] = []
    gen_schema = type(invoke_subgraph).gen_schema
    monkeypatch.setattr(type(invoke_subgraph), "gen_schema", lambda self, graph, name, *args: asked.append(name) or gen_schema(self, graph, name, *args))
    program = framejit.compile(lambda x, w: layers(region, layers(region, x, w), w), backend="aot_eager")
    program(*calls()[0]).sum().backward()
    assert asked.count("region_0") == 1
    assert len(asked) <= 4


def differ(mark, x, w):
    one, two = mark(lambda y, n: y * n), mark(lambda y, n: y * n)
    return one(x, 2) + two(x, 2) + one(x, 2.0) + one(x, True) + one(x[:2], 2).sum() + one(x.double(), 2) + one(x.t(), 2).sum()


def test_regions_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a number's type, in sizes, in types or in strides; not in which function it is."""
    (gm,) = graphs_of(differ, monkeypatch)
    assert regions_of(gm) == ["region_0", "region_0", "region_1", "region_2", "region_3", "region_4", "region_5"]


def strict(x, w):
    return strict_mode(lambda y: (y * w).sin(), (x,))


def hinted(x, w):
    return hints_wrapper(lambda y: (y * w).sin(), (x,), {}, hints={"outer": 1})


def wrapped(x, w):
    return wrap(lambda y: y * w, x) + wrap_with_set_grad_enabled(False, lambda y: y * w, x)


def in_autocast(x, w):
    return wrap_with_autocast("cpu", torch.bfloat16, True, True, lambda y: y @ w, x) + 1


def of_another_type(x, w):
    whole = (x * 10).to(torch.int8)
    return out_dtype(torch.ops.aten.mm.default, torch.int32, whole, whole.T)


MEANINGS = {
    strict: lambda x, w: (x * w).sin(), hinted: lambda x, w: (x * w).sin(), wrapped: lambda x, w: x * w + (x * w).detach(),
    in_autocast: lambda x, w: (x.bfloat16() @ w.bfloat16()) + 1,
    of_another_type: lambda x, w: (x * 10).to(torch.int8).int() @ (x * 10).to(torch.int8).int().T,
}  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", MEANINGS)
def test_small_ones(program: Callable[..., Any], backend: str) -> None:
    compare(lambda function, x, w: function(x, w), program, MEANINGS[program], calls(), backend)
