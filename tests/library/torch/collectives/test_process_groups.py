"""Programs that ask process groups for rank, size and name in compiled code: the default group and others."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import framejit

X = torch.arange(3.0)


def test_rank_and_size_are_constants() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        if not dist.is_initialized() or dist.get_world_size() > 4:
            return x
        group = dist.group.WORLD
        assert group is not None
        return x * (dist.get_rank() + 2) + group.rank() + group.size() + len(group.group_name) + len(dist.get_backend())

    assert torch.equal(framejit.compile(scaled, backend="eager", fullgraph=True)(X), scaled(X))
    assert framejit.statistics()["graphs"] == 1


def test_another_group_compiles_again() -> None:
    def ranked(x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
        return x + dist.get_rank(group) + dist.get_world_size(group) + len(dist.get_process_group_ranks(group)) + dist.get_group_rank(group, 0)

    compiled = framejit.compile(ranked, backend="eager", fullgraph=True)
    groups = [dist.new_group([0]), dist.new_group([0])]
    for group in (*groups, *groups):
        assert torch.equal(compiled(X, group), ranked(X, group))
    assert framejit.statistics()["recompiles"] == 1


def test_rank_in_a_dimension_of_a_mesh() -> None:
    mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))

    def part(x: torch.Tensor) -> torch.Tensor:
        return x.chunk(mesh.size(1))[mesh.get_local_rank("tp")] * 2

    assert torch.equal(framejit.compile(part, backend="eager", fullgraph=True)(X), X * 2)


def test_without_a_group_the_error_is_the_same() -> None:
    def asked(x: torch.Tensor) -> torch.Tensor:
        return x * dist.get_rank(group=dist.GroupMember.NON_GROUP_MEMBER) + dist.get_group_rank(dist.new_group, 0)

    for function in (asked, framejit.compile(asked, backend="eager")):
        with pytest.raises(ValueError, match="is not registered"):
            function(X)
