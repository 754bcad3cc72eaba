"""Operators that programs define, scripted functions, and functions that a program declares to be one node, against eager."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from agreement import agree
from torch import nn

import framejit

BACKENDS = ("eager", "aot_eager")
LIBRARY = torch.library.Library("framejit_operators", "DEF")


@torch.library.custom_op("framejit_operators::sine", mutates_args=())
def sine(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.sin(x.detach().numpy()))


@sine.register_fake
def _(x):
    return torch.empty_like(x)


sine.register_autograd(lambda ctx, g: g * ctx.saved_tensors[0].cos(), setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))


@torch.library.custom_op("framejit_operators::add_into", mutates_args={"total"})
def add_into(total: torch.Tensor, x: torch.Tensor, factor: float = 1.0) -> None:
    total.numpy()[...] += x.numpy() * factor


@torch.library.custom_op("framejit_operators::two_", mutates_args={"x"})
def two_(x: torch.Tensor, sizes: list[int], way: str | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    x.mul_(2 if way is None else 3)
    return x.clone(), torch.full(sizes, 2.0)


@two_.register_fake
def _(x, sizes, way=None):
    return torch.empty_like(x), x.new_empty(sizes)


NOTED: list[float] = []


@torch.library.custom_op("framejit_operators::note", mutates_args=())
def note(x: torch.Tensor) -> None:
    NOTED.append(float(x.sum()))


@torch.library.custom_op("framejit_operators::note_declared", mutates_args=())
def note_declared(x: torch.Tensor) -> None:
    NOTED.append(float(x.sum()))


note.register_fake(lambda x: None)
note_declared.register_fake(lambda x: None)
torch.fx.node.has_side_effect(torch.ops.framejit_operators.note_declared.default)


@torch.library.custom_op("framejit_operators::no_fake", mutates_args=())
def no_fake(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@torch.library.custom_op("framejit_operators::wrong_fake", mutates_args=())
def wrong_fake(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@wrong_fake.register_fake
def _(x):
    raise ValueError("sizes must be even")


LIBRARY.define("plain(Tensor x, float scale=2.0) -> Tensor")
LIBRARY.impl("plain", lambda x, scale=2.0: torch.from_numpy(x.numpy() * scale), "CPU")
LIBRARY.define("part(Tensor(a) x, int start) -> Tensor(a)")
LIBRARY.impl("part", lambda x, start: x[start:], "CompositeImplicitAutograd")
LIBRARY.define("count_(Tensor(a!) counts, Tensor x) -> ()")
LIBRARY.impl("count_", lambda counts, x: np.add.at(counts.numpy(), x.numpy(), 1), "CPU")
torch.library.register_fake("framejit_operators::count_", lambda counts, x: None, lib=LIBRARY)
LIBRARY.define("both(Tensor x) -> (Tensor, Tensor)")
LIBRARY.impl("both", lambda x: (x.sin(), x.cos()), "CompositeImplicitAutograd")


def vector(requires_grad=False):
    return torch.arange(4.0).requires_grad_(requires_grad)


def breaks_of(fn: Any, *args: Any, backend: str = "eager") -> list[str]:
    """Compile a function, compare it with eager, and give the reasons of its graph breaks."""
    framejit.reset()
    agree(fn, *args, backend=backend, fullgraph=False)
    return framejit.statistics()["reasons"]


# Custom operators.


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_custom_operator_with_its_gradient(backend):
    def f(x):
        y = sine(x * 2) + torch.ops.framejit_operators.sine(x) + torch.ops.framejit_operators.sine.default(x)
        return y, torch.autograd.grad(y.sum(), x)

    agree(f, vector(True), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_custom_operators_that_change_their_arguments(backend):
    def f(total, x):
        add_into(total, x)
        inner = torch.zeros(4)
        add_into(inner, total[:4], factor=2.0)
        doubled, filled = two_(inner, [2, 3])
        return inner, doubled, filled, two_(x, [], way="three")[0]

    agree(f, vector(), vector(), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_an_operator_writes_to_is_known_by_its_schema(backend):
    """Neither its kernel nor its fake calls an operator of torch's that would tell."""

    def f(counts, x):
        inner = counts * 0
        torch.ops.framejit_operators.count_(inner, x)
        torch.ops.framejit_operators.count_.default(counts, x)
        torch.ops.framejit_operators.count_(counts, x)
        return inner, counts + 1

    agree(f, torch.zeros(3), torch.tensor([0, 2, 2]), backend=backend)


def test_what_an_operator_changes_is_known_to_a_view_of_it():
    def f(x):
        base = x * 2
        add_into(base[1:], torch.ones(3))
        return base

    agree(f, vector())


@pytest.mark.parametrize("backend", BACKENDS)
def test_operators_defined_in_a_library(backend):
    def f(x):
        ops = torch.ops.framejit_operators
        y = x + 1
        part = ops.part(y, 1)
        part.mul_(2)
        return y, part, *ops.both(x), len(ops.part.overloads())

    agree(f, vector(), backend=backend)


def test_symbolic_sizes_go_into_operators():
    framejit.reset()
    compiled = framejit.compile(lambda x: two_(x * 2, [x.size(0), 2])[1].sum() + sine(x), backend="eager", fullgraph=True, dynamic=True)
    for size in (3, 5, 8):
        assert compiled(torch.ones(size)).equal(4 * size + sine(torch.ones(size)))
    assert framejit.statistics()["graphs"] == 1


@pytest.mark.parametrize("operator", [no_fake, torch.ops.framejit_operators.no_fake, torch.ops.framejit_operators.plain])
def test_an_operator_without_a_fake_runs_natively(operator):
    (reason,) = breaks_of(lambda x: operator(x + 1) * 2, vector())
    name = "plain" if operator is torch.ops.framejit_operators.plain else "no_fake"
    assert f"FJ074 operator framejit_operators::{name}" in reason and "test_custom_operators.py" in reason


def test_an_operator_without_a_fake_is_an_error_that_says_what_to_write():
    with pytest.raises(framejit.Unsupported, match=r'torch.library.register_fake\("framejit_operators::no_fake"\)'):
        framejit.compile(lambda x: no_fake(x + 1), backend="eager", fullgraph=True)(vector())


def test_a_fake_that_raises_says_nothing_of_the_operator():
    (reason,) = breaks_of(lambda x: wrong_fake(x + 1) * 2, vector())
    assert "FJ075" in reason and "sizes must be even" in reason


def test_opcheck_in_compiled_code():
    compiled = framejit.compile(lambda x: (torch.library.opcheck(sine, (x,)), sine(x)), backend="eager")
    found, result = compiled(vector(True))
    assert set(found.values()) == {"SUCCESS"} and result.equal(sine(vector()))


# Scripted functions.


@torch.jit.script
def scripted(x: torch.Tensor, n: int = 2, scale: float = 1.0) -> torch.Tensor:
    y = x
    for _ in range(n):
        y = y.sin() * scale
    return y


@torch.jit.script
def scripted_pair(xs: list[torch.Tensor], d: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor], list[int]]:
    xs[0].add_(1)
    return xs[0] + d["a"], {"b": xs[1] * 2}, xs[0].shape


@torch.jit.script
def in_place_(x: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    return x


@torch.jit.script
def routed(x: torch.Tensor) -> torch.Tensor:
    if bool(x.sum() > 0):
        return x * 2
    return x * 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_scripted_functions(backend):
    def f(x):
        y = scripted(x + 1) + scripted(x, n=3, scale=0.5)
        return y, torch.autograd.grad(y.sum(), x)

    agree(f, vector(True), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_scripted_functions_of_lists_and_dicts(backend):
    agree(lambda x, y: scripted_pair([x, y], {"a": y + 1}), vector(), vector(), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_scripted_functions_that_change_their_arguments(backend):
    def f(x):
        y = x + 1
        z = in_place_(y)
        return y is z, y, in_place_(x) is x

    agree(f, vector(), backend=backend)


def test_a_traced_function():
    traced = torch.jit.trace(lambda x: x * 2 + 1, vector())
    agree(lambda x: traced(x).sum(), vector())


def test_a_scripted_function_with_symbolic_sizes():
    framejit.reset()
    compiled = framejit.compile(lambda x: scripted(x) + 1, backend="eager", fullgraph=True, dynamic=True)
    for size in (3, 5, 8):
        assert compiled(torch.ones(size)).equal(scripted(torch.ones(size)) + 1)
    assert framejit.statistics()["graphs"] == 1


def test_a_scripted_function_that_goes_by_its_data_runs_natively():
    (reason,) = breaks_of(lambda x: routed(x + 1) * 2, vector())
    assert "FJ075" in reason and "routed" in reason


def test_another_scripted_function_is_another_entry():
    model = nn.Module()
    model.function = scripted
    compiled = framejit.compile(lambda x: model.function(x), backend="eager")
    assert compiled(vector()).equal(scripted(vector()))
    model.function = routed
    assert compiled(vector()).equal(routed(vector()))


def test_a_scripted_module_runs_natively():
    module = torch.jit.script(nn.Linear(4, 4))
    agree(lambda x: module(x + 1) * 2, vector(), fullgraph=False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_objects_of_torchs_classes_stay_outside_of_graphs(backend):
    weight = torch.quantize_per_tensor(torch.randn(3, 4), 0.1, 0, torch.qint8)
    try:
        packed = torch.ops.quantized.linear_prepack(weight, None)
    except RuntimeError:
        pytest.skip("this torch has no engine for quantized operators")
    agree(lambda x: torch.ops.quantized.linear_dynamic(x + 1, packed) * 2, vector()[None], backend=backend, fullgraph=False)


@pytest.mark.parametrize("operator", [note, note_declared], ids=["undeclared", "declared"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_operator_that_returns_nothing_runs_in_each_call(backend, operator):
    def f(x):
        y = x * 2
        operator(y)
        return y + 1

    framejit.reset()
    NOTED.clear()
    compiled = framejit.compile(f, backend=backend)
    for size in (1.0, 2.0):
        assert compiled(torch.full((3,), size)).equal(torch.full((3,), 2 * size + 1))
    assert NOTED == [6.0, 12.0]
    is_lost = backend == "aot_eager" and operator is note  # AOTAutograd would leave it out
    assert framejit.statistics()["graph_breaks"] == (1 if is_lost else 0)
