"""Results that are views, of graphs that begin or end with gradients off: they are leaves, or have a gradient, where eager's are and have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import framejit

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
LINEAR = nn.Linear(3, 3)


def told(value: Any) -> None:
    """Breaks the graph."""
    print(value, end="")


def a_view_of_an_intermediate_result(x):
    h = LINEAR(x)
    with torch.no_grad():
        told(h.mean().item())
    return h.reshape(-1)


def a_branch(x):
    h = LINEAR(x)
    with torch.no_grad():
        if h.abs().max() > 100:
            told("large")
    return h.t(), (h * 2).sum()


def an_exception(x):
    h = LINEAR(x)
    try:
        with torch.no_grad():
            told(1)
            raise ValueError
    except ValueError:
        pass
    return h[:, 0]


@torch.no_grad()
def logged(h):
    told(h.mean())
    return h[0].sum()


def a_decorated_function(x):
    h = LINEAR(x)
    n = logged(h)
    return h.flatten(), h[1] * n


def views_of_an_argument(x):
    torch.set_grad_enabled(False)
    told(1)
    torch.set_grad_enabled(True)
    return x.view(-1), x.t()


def several_switches(x):
    h = LINEAR(x)
    with torch.no_grad():
        told(1)
        with torch.enable_grad():
            told(2)
            v, u = h[0], h * 2
        n = h[1].sum()
    return v, u.view(-1), h.unsqueeze(0), n


def a_base_and_its_view(x):
    h = LINEAR(x)
    with torch.no_grad():
        told(1)
    y = h.view(-1)
    z = y * 2
    return z.view(3, 3), z, h.detach()


def written_through_a_view(x):
    h = LINEAR(x)
    with torch.no_grad():
        told(1)
    k = torch.ones(2, 2)
    v = k[0]
    v.mul_(h.sum())
    return k, v


def complex_parts(x):
    c = torch.complex(x, x)
    with torch.no_grad():
        told(1)
    return torch.view_as_real(c), c.real


def gradients_on_inside(x):
    with torch.enable_grad():
        h = LINEAR(x)
        return h[0], x.view(-1)


def gradients_left_on(x):
    torch.set_grad_enabled(True)
    return x.view(-1), LINEAR(x)[0]


def gradients_left_off(x):
    torch.set_grad_enabled(False)
    return x.view(-1), LINEAR(x)[0]


def a_view_without_gradient(x):
    with torch.no_grad():
        v = x[0]
    return v, v * 2, v.view(3, 1), x * 2


def a_view_without_gradient_in_a_generator(x):
    with torch.no_grad():
        told(1)

    def rows():
        with torch.no_grad():
            yield x[0]
        yield x[1]

    return tuple(rows())


ON = [
    a_view_of_an_intermediate_result, a_branch, an_exception, a_decorated_function, views_of_an_argument, several_switches, a_base_and_its_view,
    written_through_a_view, complex_parts, gradients_left_off, a_view_without_gradient, a_view_without_gradient_in_a_generator,
]  # fmt: skip
OFF = [gradients_on_inside, gradients_left_on]


def seen(run: Callable[[Any], Any], grad: bool, part: bool) -> list[Any]:
    """Run a program and its backward pass; return results with their flags, and gradients. `part`: the argument is a view of another tensor."""
    nn.init.ones_(LINEAR.weight)
    LINEAR.zero_grad()
    x = (torch.arange(9.0).view(3, 3) if part else torch.arange(9.0).view(3, 3).clone()).requires_grad_()
    with torch.set_grad_enabled(grad):
        results = run(x)
        told = [torch.is_grad_enabled()]
    results = results if isinstance(results, tuple) else (results,)
    told += [(value.detach().clone(), value.requires_grad, value.is_leaf) for value in results]
    total = sum((value * value).sum() for value in results if value.requires_grad)
    if isinstance(total, torch.Tensor):
        total.backward()
    return [*told, x.grad, LINEAR.weight.grad]


@BACKENDS
@pytest.mark.parametrize("part", [False, True])
@pytest.mark.parametrize("program", [*ON, *OFF], ids=lambda program: program.__name__)
def test_leaves_and_gradients(program: Callable[[Any], Any], part: bool, backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected = seen(program, program in ON, part)
    found = seen(framejit.compile(program, backend=backend), program in ON, part)
    torch.testing.assert_close(found, expected)


def test_a_head_that_nothing_depends_on_has_no_gradient() -> None:
    heads = nn.Linear(3, 3), nn.Linear(3, 3)

    def program(x):
        with torch.no_grad():
            told(1)
        return heads[0](x), heads[1](x)

    first, _ = framejit.compile(program, backend="aot_eager")(torch.ones(2, 3))
    first.sum().backward()
    assert heads[0].weight.grad is not None
    assert heads[1].weight.grad is None


def test_an_error_in_the_graph_leaves_gradients_off() -> None:
    def fails(x, i):
        with torch.enable_grad():
            return x[i].sin()

    compiled = framejit.compile(fails, backend="aot_eager")
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        assert compiled(x, torch.tensor([1])).requires_grad
        with pytest.raises(IndexError):
            compiled(x, torch.tensor([7]))
        assert not torch.is_grad_enabled()


def test_the_backward_pass_is_outside_of_an_autocast_in_which_the_graph_begins() -> None:
    """Values that the forward pass computes outside of any autocast keep their dtype in the backward pass."""
    outer, inner = nn.Linear(3, 3), nn.Linear(3, 3)

    def program(x):
        h = outer(x)
        with torch.autocast("cpu", enabled=False):
            return inner(h.float()).pow(2).sum()

    found = []
    for run in (program, framejit.compile(program, backend="aot_eager")):
        outer.zero_grad()
        inner.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = run(torch.arange(12.0).view(4, 3) / 10)
        loss.backward()
        found.append([parameter.grad for parameter in (*outer.parameters(), *inner.parameters())])
    torch.testing.assert_close(*found, rtol=1e-6, atol=1e-7)
