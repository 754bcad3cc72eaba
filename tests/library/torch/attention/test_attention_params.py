"""`torch.backends.cuda.SDPAParams`, and the kernels that could run with such parameters."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import Comparison
from torch.backends.cuda import SDPAParams, can_use_efficient_attention, can_use_flash_attention

import framejit


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_kernels_are_chosen_in_the_graph(backend: str, dynamic: bool | None) -> None:
    def program(q: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        params = SDPAParams(q, q, q, mask, 0.0, False, False)
        if can_use_flash_attention(params) or can_use_efficient_attention(params):
            return F.scaled_dot_product_attention(q, q, q, mask)
        return (params.query @ params.key.transpose(-1, -2)).softmax(-1) @ params.value

    compiled = framejit.compile(program, backend=backend, fullgraph=True, dynamic=dynamic)
    for size in (3, 4, 5):
        q = torch.randn(1, 2, size, 4)
        Comparison().same(program(q, None), compiled(q, None))
    Comparison().same(program(q, torch.ones(5, 5)), compiled(q, torch.ones(5, 5)))


def test_parameters_that_leave_the_graph() -> None:
    def program(q: torch.Tensor) -> Any:
        params = SDPAParams(q * 2, q, q, None, 0.5, True, False)
        framejit.graph_break()
        return params

    q = torch.ones(1, 1, 2, 2)
    found = framejit.compile(program, backend="eager")(q)
    assert type(found) is SDPAParams and found.query.equal(q * 2) and found.key is q and (found.dropout, found.is_causal) == (0.5, True)


def test_wrong_arguments_raise_what_they_raise() -> None:
    with pytest.raises(TypeError, match="incompatible constructor arguments"):
        framejit.compile(lambda q: SDPAParams(q, q), backend="eager")(torch.ones(1, 1, 2, 2))
