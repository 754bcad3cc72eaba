"""Functions of which a program says how they are to be traced: `allow_in_graph` and its like, framejit's and torch's, against eager."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
from agreement import agree
from torch import nn
from torch.utils import _pytree as pytree

import framejit

dynamo = pytest.importorskip("torch._dynamo")
BACKENDS = ("eager", "aot_eager")
ALLOW = (framejit.allow_in_graph, torch.compiler.allow_in_graph, dynamo.nonstrict_trace)


class Pair:
    def __init__(self, first: Any, second: float) -> None:
        self.first, self.second = first, second


pytree.register_pytree_node(Pair, lambda pair: ([pair.first], pair.second), lambda parts, second: Pair(*parts, second))


class Plain:
    def __init__(self, first: Any) -> None:
        self.first = first


outside = torch.full((4,), 2.0)


def vector(requires_grad=False):
    return torch.arange(4.0).requires_grad_(requires_grad)


def counts(fn: Any, *args: Any, backend: str = "eager", calls: int = 2) -> tuple[int, int]:
    """Compile a function and compare it with eager: the numbers of graphs and of graph breaks."""
    framejit.reset()
    agree(fn, *args, backend=backend, fullgraph=False, calls=calls)
    statistics = framejit.statistics()
    assert not statistics["fallbacks"], statistics["reasons"]
    return statistics["graphs"], statistics["graph_breaks"]


# One node.


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("allow", ALLOW)
def test_what_a_node_takes_and_gives(allow, backend):
    @allow
    def part(x, n, options, *more, scale=1.0):
        dynamo.graph_break()  # it isn't traced
        return {"a": x * n * options["b"][0], "rest": [x + scale, 3, (more[0], None)]}

    def f(x):
        y = x + 1
        found = part(y, 3, {"b": (x, "text")}, y, scale=0.5)
        a, three, (same, none) = found["a"], found["rest"][1], found["rest"][2]
        return a, three, none, same is y, found["rest"][0] * three, torch.autograd.grad(a.sum(), x)

    assert counts(f, vector(True), backend=backend) == (1, 0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("allow", ALLOW)
def test_registered_classes_go_in_and_out(allow, backend):
    @allow
    def part(pair, others):
        return Pair(pair.first * pair.second, pair.second + 1), [other.first for other in others]

    def f(x):
        pair, (first,) = part(Pair(x + 1, 3.0), [Pair(x, 0.0)])
        return pair.first * pair.second + first

    assert counts(f, vector(), backend=backend) == (1, 0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("allow", ALLOW)
def test_modules_and_tensors_from_outside(allow, backend):
    @allow
    def part(module, x):
        return [module(x) * outside]

    def f(module, x):
        return part(module, x + 1)[0] * 2

    def program(compile):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        function = compile(f)
        for _ in range(2):
            function(module, torch.ones(3, 4)).sum().backward()
        return [*[parameter.grad for parameter in module.parameters()], *module.buffers()]

    framejit.reset()
    for expected, found in zip(program(lambda fn: fn), program(framejit.compile(backend=backend, fullgraph=True)), strict=True):
        torch.testing.assert_close(found, expected)
    assert framejit.statistics()["graphs"] == 1


@pytest.mark.only_eager("AOTAutograd drops the call of a function without effects whose result nobody needs")
def test_a_node_is_called_each_time_even_if_nobody_needs_it():
    seen = []

    @framejit.allow_in_graph
    def part(x):
        seen.append(type(x))
        return x * 2

    compiled = framejit.compile(lambda x: (part(x), x + 1)[1], backend="eager", fullgraph=True)
    compiled(vector())
    before = len(seen)
    compiled(vector())
    assert seen[before:] == [torch.Tensor]


def test_changes_of_arguments_are_seen():
    @framejit.allow_in_graph
    def part(pair, x):
        pair.first.mul_(2)
        x.add_(1)

    def f(x, y):
        z = x * 3
        part(Pair(z, 1.0), y)
        return z, y * 2

    for backend in BACKENDS:
        assert counts(f, vector(), vector(), backend=backend) == (1, 0)


@pytest.mark.parametrize("allow", ALLOW)
def test_objects_that_nobody_can_take_apart_split_the_graph(allow):
    @allow
    def gives(x):
        return Plain(x * 2)

    @allow
    def takes(plain, x):
        return plain.first + x

    assert counts(lambda x: gives(x + 1).first * 2, vector())[1] == 1
    assert counts(lambda x: takes(Plain(x + 1), x) * 2, vector())[1] == 1


def test_a_function_that_needs_data_splits_the_graph():
    @framejit.allow_in_graph
    def part(x):
        return x * 2 if x.sum() > 0 else x

    assert counts(lambda x: part(x + 1) * 2, vector())[1] >= 1
    assert "depends on the data" in framejit.statistics()["reasons"][0]

    @framejit.allow_in_graph
    def raises(x):
        raise KeyError("not on fakes")

    def f(x):
        try:
            return raises(x + 1)
        except KeyError:
            return x

    assert counts(f, vector())[1] == 1


def test_another_function_is_another_entry():
    holder = Plain(framejit.allow_in_graph(lambda x: x * 2))
    compiled = framejit.compile(lambda x: holder.first(x) + 1, backend="eager", fullgraph=True)
    assert compiled(vector()).equal(vector() * 2 + 1)
    holder.first = framejit.allow_in_graph(lambda x: x * 3)
    assert compiled(vector()).equal(vector() * 3 + 1)


def test_structures_are_rested_on():
    @framejit.allow_in_graph
    def part(options):
        return {key: value * 2 for key, value in options.items()}

    compiled = framejit.compile(lambda options: part(options), backend="eager", fullgraph=True)
    for options in ({"a": vector()}, {"b": vector()}, {"a": vector(), "b": 3}, {"a": vector(), "b": 4}):
        found = compiled(options)
        assert list(found) == list(options) and found.get("b", 0) is not vector and found[next(iter(found))].equal(vector() * 2)
        assert not isinstance(options.get("b"), int) or found["b"] == options["b"] * 2


@pytest.mark.skipif(torch.__version__ < "2.13", reason="with torch 2.11, leaf functions call their fakes in torch's own graphs only")
@pytest.mark.parametrize("backend", BACKENDS)
def test_leaf_functions_run_as_they_are(backend):
    seen = []

    @dynamo.decorators.leaf_function
    def part(module, x):
        seen.append(float(x.sum()))
        return (module(x),)

    @part.register_fake
    def _(module, x):
        return (x.new_empty(x.shape[0], module.out_features),)

    torch.manual_seed(0)
    module = nn.Linear(4, 2)
    compiled = framejit.compile(lambda x: part(module, x + 1)[0] * 2, backend=backend, fullgraph=True)
    for factor in (1.0, 2.0):
        x = torch.full((3, 4), factor)
        module.zero_grad()
        found = compiled(x)
        torch.testing.assert_close(found, module(x + 1) * 2)
        found.sum().backward()
        torch.testing.assert_close(module.weight.grad, (x + 1).sum(0).expand(2, 4) * 2)
    assert seen == [24.0, 36.0]


# No node.


@pytest.mark.parametrize("disallow, allow, function", [
    (framejit.disallow_in_graph, framejit.allow_in_graph, torch.special.erfcx),
    (dynamo.disallow_in_graph, dynamo.allow_in_graph, torch.special.log_ndtr),
])
def test_disallow_in_graph(disallow, allow, function):
    def part(x):
        return function(x) * 2

    assert counts(lambda x: part(x + 1) + 1, vector()) == (1, 0)
    disallow(function)
    try:
        assert counts(lambda x: part(x + 1) + 1, vector()) == (2, 1)
        assert "disallow_in_graph" in framejit.statistics()["reasons"][0]
    finally:
        allow(function)
    assert counts(lambda x: part(x + 1) + 1, vector()) == (1, 0)


def native(x, y):
    return eval("x + y")


def native_of_torch(x, y):
    return eval("x + y")


def test_substitute_in_graph():
    @framejit.substitute_in_graph(native)
    def plainly(x, y):
        return x + y

    @torch.compiler.substitute_in_graph(native_of_torch)
    def plainly_too(x, y):
        return x + y

    def f(x):
        return native(x, 1) * native_of_torch(x, x) * plainly(x, 2) * plainly_too(x, 3)

    assert counts(f, vector()) == (1, 0)


def test_functions_in_c_are_substituted():
    class Counter:
        __slots__ = ("count",)

    @framejit.substitute_in_graph(operator.length_hint, skip_signature_check=True)
    def length_hint(value, default=0):
        return len(value)

    assert counts(lambda x: x * operator.length_hint([x, x]), vector()) == (1, 0)


class Configuration:
    def __init__(self) -> None:
        self.values = {"width": 3}

    @framejit.assume_constant_result
    def get(self, name):
        with open("/proc/self/comm") as file:
            return self.values[name] + len(file.read()) * 0

    @torch.compiler.assume_constant_result
    def get_too(self, name):
        return self.values[name] + len(str(eval("self")) * 0)


configuration = Configuration()


def test_assume_constant_result():
    assert counts(lambda x: x * configuration.get("width") + configuration.get_too("width"), vector()) == (1, 0)


def test_what_is_assumed_constant_is_so_for_one_object():
    compiled = framejit.compile(lambda x, c: x * c.get("width"), backend="eager", fullgraph=True)
    other = Configuration()
    other.values["width"] = 5
    assert compiled(vector(), configuration).equal(vector() * 3)
    assert compiled(vector(), other).equal(vector() * 5)


@pytest.mark.parametrize("call", [
    lambda: framejit.allow_in_graph(3),
    lambda: framejit.disallow_in_graph("sum"),
    lambda: framejit.assume_constant_result(None),
    lambda: framejit.substitute_in_graph(3),
    lambda: framejit.substitute_in_graph(native)(sum),
    lambda: framejit.substitute_in_graph(native)(lambda x: x),
])
def test_bad_arguments(call):
    with pytest.raises(framejit.BadArgument):
        call()
