"""Keywords of Python as names of parameters, operators, overloads and modules: the code of a graph never needs them spelled."""

import pytest
import torch
from torch import nn

import framejit

_library = torch.library.Library("spelling", "DEF")
_library.define("scaled(Tensor x, *, int lambda) -> Tensor")
_library.define("lambda(Tensor x) -> Tensor")
_library.define("less.from(Tensor x, int from) -> Tensor")
_library.define("change(Tensor(a!) x, *, float nonlocal) -> ()")
_library.define("plus(Tensor x, int yield) -> Tensor")
for _name, _compute in {
    "scaled": lambda x, **named: x * named["lambda"], "lambda": lambda x: x + 1, "less.from": lambda x, low: x - low,
    "change": lambda x, **named: [x.mul_(named["nonlocal"])].clear(), "plus": lambda x, more: x + more,
}.items():  # fmt: skip
    torch.library.impl(_library, _name, "CompositeExplicitAutograd")(_compute)
    torch.library.register_fake(
        f"spelling::{_name}", (lambda x, **named: None) if _name == "change" else (lambda x, *args, **named: torch.empty_like(x)), lib=_library
    )


def changed(x):
    y = x.clone()
    torch.ops.spelling.change(y, **{"nonlocal": 3.0})
    return y + 1


@torch.compiler.allow_in_graph
def allowed(x, **named):
    return x * named["lambda"] + named["is"] + named.get("a b", 0)


OPERATORS = {
    "a parameter given by name alone": lambda x: torch.ops.spelling.scaled(x, **{"lambda": 3}),
    "a parameter": lambda x: torch.ops.spelling.plus(x, **{"yield": 3}),
    "an operator": lambda x: getattr(torch.ops.spelling, "lambda")(x),
    "an overload": lambda x: torch.ops.spelling.less(x, 2),
    "an operator that changes its argument": changed,
}
ONE_GRAPH = {
    "uniform": lambda x: torch.ops.aten.uniform(x, **{"from": 1.0, "to": 2.0}) * 2,
    "random_ by name": lambda x: x.clone().random_(**{"from": 1, "to": 50}),
    "random_": lambda x: x.clone().random_(1, 50) * x,
    "random_ of a view": lambda x: (y := torch.zeros(4, 5), y[:, 1:3].random_(1, 50), y)[-1] + x.sum(),
    "random_ of an argument": lambda x: x.random_(2, 50) * 2,
    "random": lambda x: torch.ops.aten.random(x, 2, 50),
    "a power of a negative number": lambda x: (-1) ** torch.arange(4) * x + (-2.0) ** (x > 0).int() - pow(-3, (x > 0).long()),
    "a power of a negative number in a branch": lambda x: torch.cond(x.sum() > 0, lambda t: (-2) ** (t > 0).int(), lambda t: (-3) ** (t > 0).int(), (x,)),
    "a function that is a node": lambda x: allowed(x, **{"lambda": 2, "is": x.sum(), "a b": 1}),
    "operands of a branch": lambda x: torch.cond(
        x.sum() > 0, lambda d: d["lambda"] * d["is"], lambda d: d["lambda"] - d["is"], ({"lambda": x, "is": x + 1},)
    ),
    "arguments of a checkpoint": lambda x: torch.utils.checkpoint.checkpoint(
        lambda t, **named: t * named["None"] - named["lambda"], x, use_reentrant=False, **{"None": x, "lambda": x + 1}
    ),
}


def seeded(program):
    torch.manual_seed(5)
    x = torch.full((4,), 2.0)
    return program(x), x


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", ONE_GRAPH)
def test_keywords_in_calls_are_no_matter(name, backend):
    program = ONE_GRAPH[name]
    expected = seeded(program)
    framejit.reset()
    torch.testing.assert_close(seeded(framejit.compile(program, backend=backend)), expected, rtol=0, atol=0)
    assert framejit.statistics()["graphs"] == 1 and not framejit.statistics()["graph_breaks"]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_that_aotautograd_cannot_write_runs_between_graphs(name, backend, in_the_place_of_eager):
    program = OPERATORS[name]
    expected = seeded(program)
    framejit.reset()
    torch.testing.assert_close(seeded(framejit.compile(program, backend=backend)), expected, rtol=0, atol=0)
    assert framejit.statistics()["graph_breaks"] == (backend == "aot_eager" or in_the_place_of_eager == "aot_eager")


class OddNames(nn.Module):
    NAMES = ("lambda", "1", "from", "None", "a b", "é", "torch", "self", "inf")

    def __init__(self):
        super().__init__()
        for name in self.NAMES:
            setattr(self, name, nn.Linear(3, 3))
            self.register_parameter(f"{name}_weight", nn.Parameter(torch.ones(3)))
        self.register_buffer("is", torch.ones(3))

    def forward(self, x):
        for name in self.NAMES:
            x = getattr(self, name)(x) * getattr(self, f"{name}_weight")
        self.get_buffer("is").add_(1)
        return x + self.get_buffer("is")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_modules_and_arguments_may_be_called_anything(backend):
    def sums(torch, device, inf, nan, self, é, **named):
        return torch + device * inf - nan + self.sum() + é + named["lambda"] * named["a b"]

    model, x = OddNames(), torch.ones(2, 3)
    args, named = [x * i for i in range(6)], {"lambda": x, "a b": x}
    expected = model(x), sums(*args, **named)
    model.get_buffer("is").fill_(1)
    framejit.reset()
    compiled = framejit.compile(model, backend=backend, fullgraph=True)(x), framejit.compile(sums, backend=backend, fullgraph=True)(*args, **named)
    torch.testing.assert_close(compiled, expected)
