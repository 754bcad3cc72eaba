"""Views from outside of another dtype than their bases, of which torch can't make fakes as views."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import framejit

BACKENDS = ("eager", "aot_eager")


def counted(*sizes: int) -> torch.Tensor:
    return torch.arange(float(torch.Size(sizes).numel())).reshape(*sizes)


VIEWS: dict[str, Callable[[int], torch.Tensor]] = {
    "complex numbers": lambda n: torch.view_as_complex(counted(n, 2)),
    "complex numbers of a part": lambda n: torch.view_as_complex(counted(n, 4)[:, 2:]),
    "rotary embeddings": lambda n: torch.view_as_complex(torch.ones(2, n, 4, 6).reshape(2, n, 4, 3, 2)),
}


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("view", VIEWS)
def test_results_and_changes_of_inputs(view: str, backend: str, dynamic: bool | None):
    for function, breaks in ((lambda x: (x * 2).sum() + x.shape[0], False), (lambda x: x.mul_(2) + 1, True)):
        framejit.reset()
        compiled = framejit.compile(function, backend=backend, dynamic=dynamic)
        for size in (3, 4, 5, 2, 7):
            left, right = VIEWS[view](size), VIEWS[view](size)
            assert compiled(left).equal(function(right))
            assert left._base.equal(right._base)
        statistics = framejit.statistics()
        assert bool(statistics["graph_breaks"]) is breaks and statistics["fallbacks"] == 0
        if not breaks:
            assert statistics["graphs"] <= 3


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_through_a_view_and_its_base(backend: str):
    def function(view, base):
        return (view * view.conj()).real.sum() * 2 + base.sin().sum()

    framejit.reset()
    compiled = framejit.compile(function, backend=backend, fullgraph=True)
    for size in (3, 4, 5):
        found = []
        for program in (compiled, function):
            leaf = counted(2 * size).requires_grad_()
            base = leaf * 1
            program(torch.view_as_complex(base.view(size, 2)), base).backward()
            found.append(leaf.grad)
        torch.testing.assert_close(*found)


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_view_that_is_made_before_a_graph_break(backend: str):
    def function(x):
        rotated = torch.view_as_complex(x.reshape(-1, 2))
        framejit.graph_break()
        return torch.view_as_real(rotated * 1j).flatten()

    framejit.reset()
    compiled = framejit.compile(function, backend=backend)
    for size in (4, 6, 8, 10):
        x = torch.randn(2, size)
        assert compiled(x).equal(function(x))
    assert framejit.statistics()["fallbacks"] == 0


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_change_of_the_base_is_seen_through_the_view(backend: str):
    def function(base, view):
        base.add_(1)
        return view * 2

    framejit.reset()
    compiled = framejit.compile(function, backend=backend)
    for size in (3, 4):
        bases = counted(2 * size), counted(2 * size)
        left, right = (program(base, torch.view_as_complex(base.view(-1, 2))) for program, base in zip((compiled, function), bases))
        assert left.equal(right) and bases[0].equal(bases[1])
