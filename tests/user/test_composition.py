"""Directives, compile and torch's own decorators around each other, on functions and modules."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import framejit
from framejit import disable, disable_nested_graph_breaks, error_on_graph_break

IN_THE_PLACE_OF_EAGER = ["eager", "aot_eager"]
x = torch.ones(1)


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    framejit.reset()
    torch._dynamo.reset()
    yield


class Breaks(nn.Module):
    """Adds 1 as written, 101 compiled, with a graph break between."""

    def forward(self, t):
        t = t + 1
        framejit.graph_break()
        return t + (100 if framejit.is_compiling() else 0)


class Outer(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, t):
        return self.inner(t * 2) + 1


def compiled(target: Any, **options: Any) -> Any:
    return framejit.compile(target, backend="eager", **options)


MODULES: dict[str, tuple[Any, Any]] = {
    "compile(error_on_graph_break(True))": (lambda: compiled(error_on_graph_break(True)(Breaks())), framejit.Unsupported),
    "error_on_graph_break(True)(compile)": (lambda: error_on_graph_break(True)(compiled(Breaks())), framejit.Unsupported),
    "compile(error_on_graph_break(True)(compile))": (lambda: compiled(error_on_graph_break(True)(compiled(Breaks()))), framejit.Unsupported),
    "compile(error_on_graph_break(False), fullgraph)": (lambda: compiled(error_on_graph_break(False)(Breaks()), fullgraph=True), (102.0, 2)),
    "compile(compile)": (lambda: compiled(compiled(Breaks())), (102.0, 2)),
    "compile(disable)": (lambda: compiled(disable(Breaks())), (2.0, 0)),
    "disable(compile)": (lambda: disable(compiled(Breaks())), (2.0, 0)),
    "compile(Outer(disable))": (lambda: compiled(Outer(disable(Breaks()))), (4.0, 2)),
    "disable_nested_graph_breaks(compile(Outer))": (lambda: disable_nested_graph_breaks(compiled(Outer(Breaks()))), (104.0, 4)),
    "compile(disable_nested_graph_breaks(Outer))": (lambda: compiled(disable_nested_graph_breaks(Outer(Breaks()))), (104.0, 4)),
    "compile(Outer)": (lambda: compiled(Outer(Breaks())), (104.0, 2)),
}


@pytest.mark.parametrize("name", MODULES)
def test_directives_and_compile_around_modules(name):
    make, expected = MODULES[name]
    module = make()
    if isinstance(expected, type):
        with pytest.raises(expected):
            module(x)
    else:
        assert module(x).item() == module(x).item() == expected[0]
        assert framejit.statistics()["graphs"] == expected[1]
    assert isinstance(module, (Breaks, Outer))
    assert type(copy.deepcopy(module)) is type(pickle.loads(pickle.dumps(module))) is (Outer if "Outer" in name else Breaks)


def helper(t):
    return t + (100 if torch.compiler.is_compiling() else 1)


by_torch = torch.compile(helper, backend="eager")


class DecoratedForward(nn.Module):
    @torch.compile(backend="eager")
    def forward(self, t):
        return helper(t)


def own_compile(module: nn.Module) -> nn.Module:
    module.compile(backend="eager")
    return module


def makes_compiled(t):
    return torch.compile(helper, backend="eager")(t) * 2


MADE_BY_TORCH: dict[str, tuple[Any, float, int]] = {
    "function called": (lambda t: by_torch(t) * 2, 202.0, 1),
    "function": (by_torch, 101.0, 1),
    "forward": (DecoratedForward(), 101.0, 1),
    "module": (torch.compile(Outer(nn.Identity()), backend="eager"), 3.0, 1),
    "module.compile()": (own_compile(Outer(nn.Identity())), 3.0, 1),
    "submodule": (Outer(torch.compile(nn.Identity(), backend="eager")), 3.0, 1),
    "made inside": (makes_compiled, 202.0, 1),
}


@pytest.mark.parametrize("name", MADE_BY_TORCH)
def test_what_torch_compile_has_made_is_compiled_through(name):
    target, expected, graphs = MADE_BY_TORCH[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch's tracer warns of what it doesn't know, should it meet ours
        made = compiled(target)
        assert made(x).item() == made(x).item() == expected
    assert framejit.statistics()["fallbacks"] == 0 and framejit.statistics()["graphs"] == graphs


def disables_by_torch(t):
    return torch.compiler.disable(helper)(t * 2).sin()


def decorates_by_torch(t):
    @torch.compiler.disable
    def inner(t):
        return helper(t)

    return inner(t * 2).sin()


def disables(t):
    return disable(helper)(t * 2).sin()


def decorates(t):
    @disable(reason="to see")
    def inner(t):
        return helper(t)

    return inner(t * 2).sin()


@pytest.mark.parametrize("function", [disables_by_torch, decorates_by_torch, disables, decorates], ids=lambda function: function.__name__)
def test_functions_disabled_inside_compiled_code_run_as_written(function):
    made = compiled(function)
    assert torch.equal(made(x), function(x)) and torch.equal(made(x), function(x))
    assert framejit.statistics()["graphs"] == 2 and framejit.statistics()["fallbacks"] == 0


def test_framejits_own_functions_inside_compiled_code():
    def function(t):
        t = t + framejit.statistics()["fallbacks"]
        t = t * len(framejit.list_backends())
        framejit.set_logs()
        framejit.reset()
        return t + 1

    made = compiled(function)
    assert torch.equal(made(x), x * len(framejit.list_backends()) + 1)


@torch._dynamo.disable_nested_graph_breaks
def breaks_by_torch(t):
    t = t + 1
    framejit.graph_break()
    return t * 2


def calls_decorated(t):
    return breaks_by_torch(t * 3) + 1


def enters_a_block(t):
    with torch._dynamo.disable_nested_graph_breaks():
        return Breaks.forward(None, t * 3) + 1


def decorates_inside(t):
    return torch._dynamo.disable_nested_graph_breaks(Breaks.forward)(None, t * 3) + 1


@pytest.mark.parametrize("function", [calls_decorated, enters_a_block, decorates_inside], ids=lambda function: function.__name__)
def test_torchs_region_without_nested_breaks_is_ours(function):
    made = compiled(function)
    # What torch's own wrapper calls natively isn't compiled by itself, as what ours calls is.
    added, graphs = (0, 2) if function is calls_decorated else (100, 4)
    assert made(x).item() == made(x).item() == function(x).item() + added
    assert framejit.statistics()["fallbacks"] == 0 and framejit.statistics()["graphs"] == graphs


def test_torchs_region_around_the_compiled_function_itself():
    made = compiled(breaks_by_torch)
    assert torch.equal(made(x), breaks_by_torch(x)) and torch.equal(made(x), breaks_by_torch(x))
    assert framejit.statistics()["fallbacks"] == 0 and framejit.statistics()["graphs"] == 2
