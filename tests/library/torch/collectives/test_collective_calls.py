"""Collectives in compiled code, on one process and on two: in place, by functions, unused, and those that run natively."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import fx
from torch.utils import _pytree as pytree

import framejit

BACKENDS = ("eager", "aot_eager")
GATHER = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
SCATTER = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)


def exchange(x: torch.Tensor, group: dist.ProcessGroup | None = None) -> list[torch.Tensor]:
    """Call each collective that a graph can have."""
    rank, size = dist.get_rank(), dist.get_world_size()
    summed = x * (rank + 2)
    dist.all_reduce(summed)
    sent = summed + rank
    dist.broadcast(sent, size - 1)
    gathered = [torch.empty_like(x) for _ in range(size)]
    dist.all_gather(gathered, x + rank)
    joined = torch.empty(size * x.shape[0])
    GATHER(joined, x * (1 + rank))
    largest = torch.empty_like(x)
    SCATTER(largest, joined, op=dist.ReduceOp.MAX, group=group)
    from_first = x + rank
    dist.broadcast(from_first, group_src=0, group=group)
    crossed, cut = torch.empty(size * 2, 3), torch.empty(size + rank * size)
    dist.all_to_all_single(crossed, torch.arange(size * 6.0).reshape(size * 2, 3) + rank, group=group)
    dist.all_to_all_single(cut, torch.arange(sum(range(1, size + 1)) * 1.0), [1 + rank] * size, list(range(1, size + 1)))
    return [summed, sent, *gathered, joined, largest, from_first, crossed, cut]


def assert_equal(expected: Any, found: Any) -> None:
    for left, right in zip(pytree.tree_leaves(expected), pytree.tree_leaves(found), strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize("backend", BACKENDS)
def test_collectives_are_part_of_the_graph(backend: str) -> None:
    compiled = framejit.compile(exchange, backend=backend, fullgraph=True)
    for size in (3, 5):
        x = torch.arange(float(size))
        assert_equal(exchange(x), compiled(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_input_is_written(backend: str) -> None:
    def mean(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            dist.all_reduce(weight, op=dist.ReduceOp.AVG)
        dist.all_reduce(x)
        return x + 1

    x, y = torch.arange(3.0), torch.arange(3.0)
    weight = torch.ones(2, requires_grad=True)
    assert_equal(mean(x, weight), framejit.compile(mean, backend=backend, fullgraph=True)(y, weight))
    assert torch.equal(x, y)


def test_functional_collectives_are_waited_for() -> None:
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return functional.all_reduce(x + 1, "sum", dist.group.WORLD) * 2

    assert torch.equal(framejit.compile(doubled, backend="aot_eager", fullgraph=True)(torch.ones(3)), torch.full((3,), 4.0))


def test_a_result_that_nothing_uses_is_exchanged_all_the_same() -> None:
    graphs: list[fx.GraphModule] = []

    def keep(gm: fx.GraphModule, inputs: list[Any]) -> fx.GraphModule:
        graphs.append(gm)
        return gm

    def unused(x: torch.Tensor) -> torch.Tensor:
        functional.all_reduce(x, "sum", dist.group.WORLD)
        return x + 1

    framejit.compile(unused, backend=keep, fullgraph=True)(torch.ones(3))
    assert any("all_reduce" in str(node.target) for node in graphs[0].graph.nodes)


def test_what_a_backward_pass_remembers_is_written_outside_of_graphs() -> None:
    def reduced(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        z = w * y
        dist.all_reduce(y)
        return z

    w, v = (torch.ones(3, requires_grad=True) for _ in range(2))
    expected, found = reduced(w, torch.ones(3)), framejit.compile(reduced, backend="eager")(v, torch.ones(3))
    expected.sum().backward()
    found.sum().backward()
    assert_equal([expected, w.grad], [found, v.grad])
    assert framejit.statistics()["graph_breaks"] == 1


def test_calls_that_the_functional_forms_dont_have_split_the_graph() -> None:
    def waited_for(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        work = dist.all_reduce(y, async_op=True)
        work.wait()
        return y + 1

    def complex_(x: torch.Tensor) -> torch.Tensor:
        y = torch.complex(x, x)
        dist.all_reduce(y)
        return y

    x = torch.arange(3.0)
    for function in (waited_for, complex_):
        framejit.reset()
        assert_equal(function(x), framejit.compile(function, backend="eager")(x))
        assert framejit.statistics()["graph_breaks"] >= 1


def test_an_error_is_that_of_the_collective() -> None:
    def uneven(x: torch.Tensor) -> None:
        dist.all_gather([x, x], x)

    errors = []
    for function in (uneven, framejit.compile(uneven, backend="eager")):
        with pytest.raises(RuntimeError) as raised:
            function(torch.ones(2))
        errors.append(str(raised.value))
    assert errors[0] == errors[1]


def one_of_two(rank: int, folder: str) -> None:
    dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", 2), rank=rank, world_size=2)
    pair = dist.new_group([0, 1])
    x = torch.arange(1.0, 3.0)
    assert_equal(exchange(x, pair), framejit.compile(exchange, backend="eager", fullgraph=True)(x, pair))
    dist.destroy_process_group()


def test_two_processes_exchange_what_they_do_in_eager() -> None:
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(one_of_two, args=(folder,), nprocs=2)
