"""torch.autograd.functional in compiled code: derivatives in one graph, gradients through them, and what stays native."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import agree
from torch import nn
from torch.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp

import framejit

torch.manual_seed(0)
NET = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def loss(x: Any) -> Any:
    return NET(x).pow(2).sum()


def product(a: Any, b: Any) -> Any:
    return (a * b.sin() * a).sum()


WHOLE = {
    "jacobian": lambda x: jacobian(NET, x[0]),
    "jacobian of a matrix": lambda x: jacobian(torch.exp, x * 2, vectorize=True),
    "jacobian by two tensors": lambda x: jacobian(lambda a, b: a * b.sum(), (x, x[0])),
    "jacobian of a number": lambda x: jacobian(lambda a: (loss(a),), x),
    "jacobian by what doesn't count": lambda x: jacobian(lambda a, b: a * 2, (x[0], x[1])),
    "jacobian to differentiate": lambda x: jacobian(NET, x[0], create_graph=True).pow(2).sum() + x.sum(),
    "jacobian of two results": lambda x: jacobian(lambda a, b: (a * b.sum(), (a.sum() + b).sin()), (x, x[0]), vectorize=True),
    "hessian by two tensors": lambda x: hessian(product, (x[0], x[1]), vectorize=True),
    "jacobian of data to differentiate": lambda x: jacobian(NET, x[0].detach(), create_graph=True),
    "hessian of data to differentiate": lambda x: hessian(loss, x[0].detach(), create_graph=True),
    "hessian": lambda x: hessian(loss, x[0] * 2),
    "hessian to differentiate": lambda x: hessian(loss, (x[0],), create_graph=True, vectorize=True),
    "vjp": lambda x: vjp(lambda a, b: (a @ b, a.sum()), (x, x.t()), (torch.ones(4, 4), x[0, 0])),
    "vjp of a number": lambda x: vjp(loss, x),
    "vjp to differentiate": lambda x: vjp(NET, x, torch.ones(4, 2), create_graph=True),
    "jvp": lambda x: jvp(NET, x, x * 2),
    "jvp to differentiate": lambda x: jvp(NET, x, x * 2, create_graph=True),
    "hvp": lambda x: hvp(product, (x, x * 2), (x, x)),
    "hvp to differentiate": lambda x: hvp(loss, x, x, create_graph=True),
    "vhp": lambda x: vhp(product, (x, x * 2), (x, x)),
}


def told(call: Any) -> list[Any]:
    torch.manual_seed(1)
    NET.zero_grad()
    x = torch.randn(4, 3, requires_grad=True)
    leaves, structure = torch.utils._pytree.tree_flatten(call(x))
    roots = [leaf.sum() for leaf in leaves if leaf.requires_grad]
    if roots:
        sum(roots).backward()
    return [str(structure), *[leaf.requires_grad for leaf in leaves], *leaves, x.grad, *[p.grad for p in NET.parameters()]]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", WHOLE)
def test_one_graph(name: str, backend: str) -> None:
    framejit.reset()
    expected, compiled = told(WHOLE[name]), framejit.compile(WHOLE[name], backend=backend, fullgraph=True)
    for _ in range(2):
        found = told(compiled)
        assert len(found) == len(expected)
        for a, b in zip(found, expected):
            if isinstance(b, torch.Tensor):
                torch.testing.assert_close(a, b)
            else:
                assert a == b
    assert framejit.statistics()["graphs"] == 1


def test_without_autograd_around() -> None:
    def program(x):
        with torch.no_grad():
            return jacobian(NET, x[0]), jvp(NET, x, x), hvp(loss, x, x)

    agree(program, torch.randn(4, 3))


@pytest.mark.parametrize("program", [
    lambda x: jacobian(NET, x[0], strict=True),
    lambda x: jacobian(NET, x[0], vectorize=True, strategy="forward-mode"),
    lambda x: jacobian(lambda a: (a.sin(), a.sum()), x),
    lambda x: jacobian(torch.sin, x[0], create_graph=True),
    lambda x: jvp(lambda a: (NET(a), a * 2), x, x, create_graph=True),
    lambda x: hessian(product, (x[0], x[1])),
    lambda x: jacobian(lambda a: a * 2 if a.sum() > 0 else a, x[0]),
    lambda x: vjp(NET, x, x),
    lambda x: vjp(NET, x),
    lambda x: vjp(NET, [x], torch.ones(4, 2)),
    lambda x: jvp(NET, x),
    lambda x: hessian(NET, x),
    lambda x: hvp(lambda a: 3, x, x),
    lambda x: jacobian(lambda a: a, x.long()),
    lambda x: jacobian(lambda a: a[:0], x),
    lambda x: jacobian(lambda a: torch.ones(2), x, strict=True),
])  # fmt: skip
def test_what_runs_natively(program: Any) -> None:
    """And raises what torch raises."""
    agree(program, torch.randn(4, 3), fullgraph=False)
