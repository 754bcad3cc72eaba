"""torch.func.linearize in compiled code: in one graph where torch's own graph of tangents can't differ, else left to torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import linearize, vmap
from torch.utils import _pytree as pytree

import framejit

BACKENDS = ("eager", "aot_eager")
NET = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
CALLS: list[str] = []


def called_twice(x):
    out, push = linearize(torch.sin, x)
    return out, push(x), push(x * 2)


def of_a_model(x):
    with torch.no_grad():
        out, push = linearize(NET, x)
        return out, push(torch.ones_like(x)), vmap(push)(torch.stack([x, x * 2]))


def of_structures(x):
    out, push = linearize(lambda d, y: {"a": d["k"] * y, "b": (d["k"].sum(), y.cos()), "c": torch.ones(2)}, {"k": x}, x + 1)
    return out, push({"k": x * 2}, x)


def along_what_requires_a_gradient(x):
    w = (x * 3).detach().requires_grad_()
    tangent = linearize(lambda y: y.sin() * y.sum(), x)[1](w * 2)
    return tangent.detach(), torch.autograd.grad(tangent.sum(), w)[0]


def with_side_effects(x):
    def f(y):
        CALLS.append("called")
        return y * 2

    out, push = linearize(f, x)
    CALLS.append("linearized")
    return out, push(x), push(out)


def in_a_loop(x):
    push, v = linearize(lambda y: y.sin() + 0.1 * y.sum(), x[0])[1], x[1]
    for _ in range(3):
        v = v - 0.1 * push(v)
    return v


WHOLE = (called_twice, of_a_model, of_structures, with_side_effects, in_a_loop)


def of_what_requires_a_gradient(x):
    out, push = linearize(NET, x)
    return out, push(x)


def whose_function_leaves(x):
    return linearize(torch.sin, x)


def behind_a_break(x):
    push = linearize(torch.sin, x)[1]
    framejit.graph_break()
    return push(x)


def of_what_changes(x):
    y = x.clone()
    push = linearize(lambda z: z.sin() * z, y)[1]
    y.add_(1)
    first = push(x)
    y.add_(1)
    return first, push(x)


def of_random_numbers(x):
    out, push = linearize(lambda y: nn.functional.dropout(y, 0.5), x)
    return out, push(x), push(x)


def along_others(x):
    push, said = linearize(torch.sin, x)[1], []
    for tangent in (x[0], x.double(), (x, x)):
        try:
            push(tangent)
        except RuntimeError as error:
            said.append(str(error))
    return said


SPLIT = (along_what_requires_a_gradient, of_what_requires_a_gradient, whose_function_leaves, behind_a_break, of_what_changes, of_random_numbers, along_others)


def told(program: Callable[..., Any]) -> list[Any]:
    torch.manual_seed(0)
    CALLS.clear()
    found: list[Any] = []
    for _ in range(2):
        x = torch.randn(4, 3)
        for leaf in pytree.tree_leaves(program(x)):
            leaf = leaf(x) if callable(leaf) and not isinstance(leaf, torch.Tensor) else leaf
            found += [leaf.detach(), leaf.requires_grad] if isinstance(leaf, torch.Tensor) else [leaf]
    return [*found, *CALLS, torch.rand(2)]


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [*WHOLE, *SPLIT])
def test_tangents_are_eagers(program: Callable[..., Any], backend: str) -> None:
    framejit.reset()
    expected, found = told(program), told(framejit.compile(program, backend=backend))
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        if isinstance(b, torch.Tensor):
            torch.testing.assert_close(a, b)
        else:
            assert a == b
    if program in WHOLE:
        assert framejit.statistics()["graph_breaks"] == 0, framejit.statistics()
