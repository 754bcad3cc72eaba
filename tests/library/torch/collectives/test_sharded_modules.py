"""Modules that `fully_shard` has sharded, inside a compiled model: eager's results and gradients, and one graph for blocks of a class."""

from __future__ import annotations

import copy

import pytest
import torch
from agreement import Comparison
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import framejit


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.outer(torch.relu(self.inner(x)))


class Model(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.blocks, self.head = nn.ModuleList([Block() for _ in range(count)]), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def sharded(model: Model, shards_root: bool, dtype: torch.dtype | None = None) -> Model:
    mesh, policy = init_device_mesh("cpu", (1,)), MixedPrecisionPolicy(param_dtype=dtype)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    if shards_root:
        fully_shard(model, mesh=mesh, mp_policy=policy)
    return model


def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    loss = model(x).square().mean()
    loss.backward()
    gradients = [parameter.grad.full_tensor().clone() for parameter in optimizer.param_groups[0]["params"] if hasattr(parameter.grad, "full_tensor")]
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach(), gradients


@pytest.mark.parametrize(("shards_root", "dtype"), [(False, None), (True, None), (True, torch.bfloat16)])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_training(backend: str, shards_root: bool, dtype: torch.dtype | None) -> None:
    torch.manual_seed(0)
    model = Model(4)
    eager, other = (sharded(copy.deepcopy(model), shards_root, dtype) for _ in range(2))
    compiled = framejit.compile(other, backend=backend)
    optimizers = [torch.optim.SGD(called.parameters(), lr=0.1) for called in (eager, other)]
    for size in (2, 2, 3, 5):
        x = torch.randn(size, 8)
        Comparison().same(*[step(called, optimizer, x) for called, optimizer in zip((eager, compiled), optimizers)])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_checkpointed_blocks(backend: str) -> None:
    torch.manual_seed(0)
    model = Model(3)
    for number in range(3):
        model.blocks[number] = checkpoint_wrapper(model.blocks[number])
    eager, other = (sharded(copy.deepcopy(model), shards_root=True) for _ in range(2))
    compiled = framejit.compile(other, backend=backend)
    optimizers = [torch.optim.SGD(called.parameters(), lr=0.1) for called in (eager, other)]
    for size in (2, 2, 3):
        x = torch.randn(size, 8)
        Comparison().same(*[step(called, optimizer, x) for called, optimizer in zip((eager, compiled), optimizers)])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_inside_of_the_hooks_no_graph_is_split(backend: str) -> None:
    torch.manual_seed(0)
    model = Model(3)
    eager, other = (copy.deepcopy(model) for _ in range(2))
    for block in other.blocks:
        block.forward = framejit.compile(block.forward, backend=backend, fullgraph=True)
    both = [sharded(called, shards_root=True) for called in (eager, other)]
    optimizers = [torch.optim.SGD(called.parameters(), lr=0.1) for called in both]
    for size in (2, 2, 3):
        x = torch.randn(size, 8)
        Comparison().same(*[step(called, optimizer, x) for called, optimizer in zip(both, optimizers)])
    assert framejit.statistics()["graph_breaks"] == 0


def test_blocks_share_a_graph() -> None:
    compiled = framejit.compile(sharded(Model(6), shards_root=False), backend="eager")
    for _ in range(3):
        compiled(torch.randn(2, 8)).sum().backward()
    found = framejit.statistics()
    few = framejit.compile(sharded(Model(2), shards_root=False), backend="eager")
    framejit.reset()
    few(torch.randn(2, 8)).sum().backward()
    assert found["graphs"] <= framejit.statistics()["graphs"] + 1
    assert found["graphs"] < 6


def test_a_block_that_raises() -> None:
    model = sharded(Model(2), shards_root=False)
    compiled = framejit.compile(model, backend="eager")
    compiled(torch.randn(2, 8))
    seen = []
    for called in (model, compiled):
        with pytest.raises(RuntimeError) as caught:
            called(torch.randn(2, 7))
        seen.append(str(caught.value))
    assert seen[0] == seen[1]


def test_the_forward_of_a_sharded_module_is_traced() -> None:
    model = sharded(Model(1), shards_root=False)
    block = model.blocks[0]
    block.unshard()
    x = torch.randn(2, 8)
    Comparison().same(framejit.compile(block.forward, backend="eager", fullgraph=True)(x), block.forward(x))
