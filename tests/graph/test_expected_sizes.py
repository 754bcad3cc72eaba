"""`torch.bincount(x, minlength=n)` has the length n wherever the program needs that; the graph checks it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import framejit


def confusion(p: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return torch.bincount(3 * t + p, minlength=9).reshape(3, 3).float() / len(p)


def degrees(p: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    x = torch.ones(9, 2)
    return x / t.bincount(minlength=x.size(0)).clamp(min=1).unsqueeze(1)


def mean_of_neighbours(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    total = x.new_zeros(x.shape).index_add(0, edges[1], x[edges[0]])
    return total / torch.bincount(edges[1], minlength=x.size(0)).clamp(min=1).unsqueeze(1)


def total(p: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    counts = torch.bincount(p, minlength=2)
    return counts.sum() + counts.clamp(max=1).sum()


def drawn(most: int, count: int) -> torch.Tensor:
    return torch.randint(0, most, (count,))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [confusion, degrees, total])
def test_counts_are_as_long_as_the_program_says(function: Callable[..., torch.Tensor], backend: str) -> None:
    torch.manual_seed(0)
    framejit.reset()
    f = framejit.compile(function, backend=backend, fullgraph=True)
    for count in (20, 20, 33, 7):
        p, t = drawn(3, count), drawn(3, count)
        assert torch.equal(f(p, t), function(p, t))
    assert framejit.statistics()["fallbacks"] == 0


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_counts_of_nodes(backend: str) -> None:
    torch.manual_seed(0)
    framejit.reset()
    f = framejit.compile(mean_of_neighbours, backend=backend, fullgraph=True)
    for nodes, edges in ((6, 10), (7, 12), (9, 20), (5, 8)):
        x, index = torch.randn(nodes, 3), torch.randint(0, nodes, (2, edges))
        torch.testing.assert_close(f(x, index), mean_of_neighbours(x, index))
    assert framejit.statistics()["graphs"] <= 3


def test_counts_that_are_longer_are_only_refused_where_that_matters() -> None:
    torch.manual_seed(0)
    f, g = framejit.compile(confusion, backend="eager"), framejit.compile(total, backend="eager", fullgraph=True)
    for most in (3, 5, 3, 5):
        p, t = drawn(most, 50), drawn(most, 50)
        assert torch.equal(g(p, t), total(p, t))
        if most == 3:
            assert torch.equal(f(p, t), confusion(p, t))
        else:
            with pytest.raises(RuntimeError, match="shape") as eager:
                confusion(p, t)
            with pytest.raises(RuntimeError) as found:
                f(p, t)
            assert str(found.value) == str(eager.value)


def test_longer_counts_that_the_program_can_use() -> None:
    """Its length decides a size, and no error follows: another call has another one."""

    def program(p: torch.Tensor) -> torch.Tensor:
        counts = torch.bincount(p, minlength=4)
        return counts.reshape(2, -1).sum(0)

    f = framejit.compile(program, backend="eager")
    for most in (4, 4, 8, 4, 6):
        p = torch.arange(most)
        assert torch.equal(f(p), program(p))
