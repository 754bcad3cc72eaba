"""Tests of collectives run in a group of one process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch.distributed as dist

import framejit


@pytest.fixture(scope="module", autouse=True)
def group_of_one() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(autouse=True)
def counted_anew() -> None:
    framejit.reset()
