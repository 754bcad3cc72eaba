"""Distributed tensors, on one process: as inputs, made inside, and in tensor-parallel layers."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from tools.bench.feature_cases.feature import feature


@functools.cache
def mesh() -> DeviceMesh:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    return init_device_mesh("cpu", (1,))


@feature("a DTensor as input", lambda: (distribute_tensor(torch.randn(4, 6), mesh(), [Shard(0)]).requires_grad_(),))
def as_input(x: Any) -> Any:
    return (x * 2 + 1).relu().to_local()


@feature("a DTensor made inside", lambda: (torch.randn(4, 6, requires_grad=True), mesh()))
def made_inside(x: torch.Tensor, devices: DeviceMesh) -> Any:
    d = DTensor.from_local(x, devices, [Shard(0)])
    return (d @ d.t()).redistribute(placements=[Replicate()]).to_local().relu(), d.sum().full_tensor()


def parallel() -> tuple[Any, ...]:
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6))
    return parallelize_module(model, mesh(), {"0": ColwiseParallel(), "2": RowwiseParallel()}), torch.randn(4, 6, requires_grad=True)


@feature("a tensor-parallel model", parallel)
def tensor_parallel(model: nn.Module, x: torch.Tensor) -> Any:
    return model(x)
