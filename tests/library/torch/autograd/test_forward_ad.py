"""torch.autograd.forward_ad: dual levels inside compiled code, around it, and across graph breaks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

import framejit

BACKENDS = ("eager", "aot_eager")
NET = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def inside(x: Any, tangent: Any) -> Any:
    with forward_ad.dual_level():
        return tuple(forward_ad.unpack_dual(NET(forward_ad.make_dual(x, tangent)).sin()))


def across_a_break(x: Any, tangent: Any) -> Any:
    """The tangent of what the first graph gives was None in the second, whose fakes have none."""
    with forward_ad.dual_level():
        y = forward_ad.make_dual(x, tangent) * x
        framejit.graph_break()
        return tuple(forward_ad.unpack_dual(y.sin() * 2))


def without_a_tangent(x: Any, tangent: Any) -> Any:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, tangent)
        return forward_ad.unpack_dual(x * 2).tangent is None, forward_ad.unpack_dual(dual * 2).tangent


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [inside, across_a_break, without_a_tangent])
def test_levels_inside(program: Any, backend: str) -> None:
    framejit.reset()
    x, tangent = torch.randn(5, 3), torch.randn(5, 3)
    compiled = framejit.compile(program, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(compiled(x, tangent), program(x, tangent))
    assert forward_ad._current_level == -1


def along(function: Any, x: Any, tangent: Any) -> Any:
    with forward_ad.dual_level():
        return tuple(forward_ad.unpack_dual(function(forward_ad.make_dual(x, tangent))))


@pytest.mark.only_eager("the test names its backend")
@pytest.mark.parametrize("backend", [*BACKENDS, pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("program", [lambda x: x.sin() * x, NET])
def test_a_level_around_a_compiled_function(program: Any, backend: str) -> None:
    """Inductor's code gives tensors without tangents, and AOTAutograd's raises an error, whether it was compiled before or inside the level."""
    framejit.reset()
    x, tangent = torch.randn(5, 3), torch.randn(5, 3)
    compiled = framejit.compile(program, backend=backend)
    expected = along(program, x, tangent)
    torch.testing.assert_close(along(compiled, x, tangent), expected)
    torch.testing.assert_close(compiled(x), program(x))
    torch.testing.assert_close(along(compiled, x, tangent), expected)
    torch.testing.assert_close(compiled(x), program(x))
    assert framejit.statistics()["graphs"] == (2 if backend == "eager" else 1)
