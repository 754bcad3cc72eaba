"""Tensors from outside as inputs of graphs."""

from __future__ import annotations

import pytest
import torch

import framejit


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_zeros_without_memory(backend: str):
    framejit.reset()
    compiled = framejit.compile(lambda x: x + 1, backend=backend)
    assert compiled(torch._efficientzerotensor((3,))).equal(torch.ones(3))
