"""Distributed tensors, on one process: as inputs, made inside and returned, tensor-parallel layers, and what is guarded of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import implicit_replication
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

import framejit

BACKENDS = ("eager", "aot_eager")


@pytest.fixture(scope="module", autouse=True)
def process_group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(autouse=True)
def counting() -> None:
    framejit.reset()


@pytest.fixture(scope="module")
def mesh() -> DeviceMesh:
    return init_device_mesh("cpu", (1,))


def plain(value: Any) -> Any:
    """Return the parts of a result that are compared: copies of tensors, and of a DTensor its properties and local tensor."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, DTensor):
        return [value.placements, value.device_mesh.ndim, value.requires_grad, tuple(value.stride()), plain(value.to_local())]
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def assert_same(expected: Any, found: Any) -> None:
    if isinstance(expected, list):
        assert len(expected) == len(found)
        for left, right in zip(expected, found):
            assert_same(left, right)
    elif isinstance(expected, torch.Tensor):
        assert type(found) is type(expected)
        torch.testing.assert_close(found, expected)
    else:
        assert expected == found


def graphs_and_breaks() -> tuple[int, int]:
    found = framejit.statistics()
    return found["graphs"], found["graph_breaks"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_recompiles_where_placements_or_the_mesh_change(mesh: DeviceMesh, backend: str) -> None:
    def f(x: Any) -> Any:
        return (x * 2 + 1).relu(), x.placements, x.shape, x.placements[0].is_shard(), x.device_mesh.ndim

    other = init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
    compiled = framejit.compile(f, backend=backend)
    layouts = [(mesh, [Shard(0)]), (mesh, [Shard(1)]), (mesh, [Replicate()]), (other, [Shard(0), Shard(1)]), (other, [Replicate(), Shard(0)])]
    for devices, placements in [*layouts, layouts[0]]:
        x, y = (distribute_tensor(torch.ones(4, 6), devices, placements).requires_grad_() for _ in range(2))
        expected, found = f(x), compiled(y)
        assert_same(plain(expected), plain(found))
        expected[0].sum().backward()
        found[0].sum().backward()
        if torch.__version__ < "2.13" and backend == "aot_eager":  # AOTAutograd gives gradients the placement of their tensors
            assert torch.equal(x.grad.full_tensor(), y.grad.full_tensor())
        else:
            assert_same(plain(x.grad), plain(y.grad))
    assert graphs_and_breaks() == (5, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_from_local_to_local_and_what_lies_between(mesh: DeviceMesh, backend: str) -> None:
    def f(x: torch.Tensor) -> Any:
        d = DTensor.from_local(x, mesh, [Shard(-1)])
        partial = (d @ d.t()).sum(0)
        total = partial.redistribute(placements=[Replicate()])
        split = Shard(0)
        told = d.placements == (Shard(1),), split.dim, repr(d.placements[0])
        return total.to_local() + 1, partial.full_tensor(), d.redistribute(mesh, [split]).detach(), told

    compiled = framejit.compile(f, backend=backend)
    for size in (3, 3, 5, 7):
        x, y = (torch.ones(size, 4, requires_grad=True) for _ in range(2))
        expected, found = f(x), compiled(y)
        assert_same(plain(expected), plain(found))
        (expected[0].sum() + expected[1].sum() * 2).backward()
        (found[0].sum() + found[1].sum() * 2).backward()
        assert_same(plain(x.grad), plain(y.grad))
    assert graphs_and_breaks() == (2, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_equal_meshes(backend: str) -> None:
    whole = init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))

    def f(x: Any) -> Any:
        return (x * 2).redistribute(placements=[Replicate()]), DTensor.from_local(torch.ones(3), whole["tp"], [Shard(0)]).to_local()

    compiled = framejit.compile(f, backend=backend)
    for part in (whole["tp"], whole["tp"]):
        x, y = (distribute_tensor(torch.ones(4, 6), part, [Shard(0)]).requires_grad_() for _ in range(2))
        expected, found = f(x), compiled(y)
        assert_same(plain(expected), plain(found))
        expected[0].sum().backward()
        found[0].sum().backward()
        assert_same(plain(x.grad), plain(y.grad))
        assert y.grad is not None and y.grad.device_mesh == part
    assert graphs_and_breaks() == (2, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_made_inside_and_returned(mesh: DeviceMesh, backend: str) -> None:
    def f(x: torch.Tensor) -> Any:
        return DTensor.from_local(x * 2, mesh, [Shard(0)]) + 1

    x, y = (torch.ones(4, 6, requires_grad=True) for _ in range(2))
    expected, found = f(x), framejit.compile(f, backend=backend)(y)
    assert_same(plain(expected), plain(found))
    expected.sum().backward()
    found.sum().backward()
    assert_same(plain(x.grad), plain(y.grad))
    if backend == "eager":
        assert graphs_and_breaks() == (1, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_views_of_what_comes_from_outside(mesh: DeviceMesh, backend: str) -> None:
    def f(x: Any) -> Any:
        return x.t(), x * 2

    x = distribute_tensor(torch.ones(4, 6), mesh, [Shard(0)])
    found = framejit.compile(f, backend=backend)(x)
    assert_same(plain(f(x)), plain(found))
    x.to_local().add_(1)
    assert_same(plain(x.t()), plain(found[0]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_operators_on_distributed_tensors_and_others(mesh: DeviceMesh, backend: str) -> None:
    compiled = framejit.compile(lambda x, y: x + y, backend=backend)
    arguments = distribute_tensor(torch.ones(4, 6), mesh, [Replicate()]), torch.ones(4, 6)
    with implicit_replication():
        assert_same(plain(arguments[0] + arguments[1]), plain(compiled(*arguments)))
    with pytest.raises(RuntimeError, match="mixed"):
        compiled(*arguments)


def test_what_redistribution_refuses_is_raised(mesh: DeviceMesh) -> None:
    def f(x: Any) -> Any:
        return (x + 1).redistribute(placements=[Partial()])

    x = distribute_tensor(torch.ones(4, 6), mesh, [Replicate()])
    with pytest.raises(RuntimeError) as expected:
        f(x)
    with pytest.raises(RuntimeError) as found:
        framejit.compile(f, backend="eager")(x)
    assert str(found.value) == str(expected.value)


def test_distributing_runs_natively(mesh: DeviceMesh) -> None:
    def f(x: torch.Tensor) -> Any:
        return distribute_tensor(x * 2, mesh, [Shard(0)]) + 1

    assert_same(plain(f(torch.ones(4, 6))), plain(framejit.compile(f, backend="eager")(torch.ones(4, 6))))
    assert graphs_and_breaks() == (2, 1)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.blocks, self.head = nn.Embedding(11, 8), nn.ModuleList([Block() for _ in range(2)]), nn.Linear(8, 11)
        for block in self.blocks:
            plan = {"norm": SequenceParallel(), "up": ColwiseParallel(input_layouts=Shard(1)), "down": RowwiseParallel(output_layouts=Shard(1))}
            parallelize_module(block, mesh, plan)  # type: ignore[arg-type]
        ends = {
            "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        }
        parallelize_module(self, mesh, ends)  # type: ignore[arg-type]

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("backend", ("eager", pytest.param("aot_eager", marks=pytest.mark.slow)))
def test_tensor_and_sequence_parallel_layers_are_one_graph(mesh: DeviceMesh, backend: str) -> None:
    def trained(net: Any, optimizer: torch.optim.Optimizer) -> list[float]:
        losses = []
        for length in (4, 4, 6):
            tokens = torch.arange(2 * length).reshape(2, length) % 11
            loss = nn.functional.cross_entropy(net(tokens).flatten(0, 1), tokens.flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses

    one, other = Net(mesh), Net(mesh)
    expected = trained(one, torch.optim.SGD(one.parameters(), lr=0.5))
    found = trained(framejit.compile(other, backend=backend), torch.optim.SGD(other.parameters(), lr=0.5))
    torch.testing.assert_close(found, expected)
    for left, right in zip(one.parameters(), other.parameters()):
        assert_same(plain(left), plain(right))
    assert graphs_and_breaks()[1] == 0


def test_fully_sharded_modules(mesh: DeviceMesh) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    fully_shard(model[0])
    fully_shard(model)
    x = torch.randn(2, 8)
    found = framejit.compile(model, backend="eager")(x)
    torch.testing.assert_close(found, model(x))
    found.sum().backward()
    gradient = model[0].weight.grad.full_tensor().clone()
    model.zero_grad()
    model(x).sum().backward()
    torch.testing.assert_close(gradient, model[0].weight.grad.full_tensor())
