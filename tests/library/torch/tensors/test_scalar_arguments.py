"""Tensors without dimensions where operators take a number: learning rates in tensors, in steps that programs write themselves."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framejit


def step(p: torch.Tensor, g: torch.Tensor, lr: torch.Tensor) -> Any:
    q = p + 1
    q.add_(g, alpha=-lr)
    p.add_(g, alpha=lr)
    return q, torch.add(p, g, alpha=lr * 2)


def with_value(p: torch.Tensor, g: torch.Tensor, lr: torch.Tensor) -> Any:
    p.sub_(g, alpha=lr)
    product = torch.addmm(p[None], g[None], torch.eye(3), beta=lr)
    return product, p.addcdiv(g, g + 1, value=lr), torch.addcmul(p, g, g, value=lr), p.masked_fill(g > 1, value=lr)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [step, with_value], ids=lambda program: program.__name__)
def test_the_number_is_read_in_the_graph(program: Any, backend: str) -> None:
    framejit.reset()
    compiled = framejit.compile(program, backend=backend)
    for rate in (0.5, 0.1, 0.0, 3):
        left, right = ((torch.ones(3), torch.arange(3.0), torch.tensor(rate, dtype=torch.float32)) for _ in range(2))
        for expected, found in zip((*program(*left), *left), (*compiled(*right), *right)):
            assert torch.equal(expected, found)
    if program is step:
        assert (framejit.statistics()["graphs"], framejit.statistics()["graph_breaks"]) == (1, 0)


def test_what_is_no_number_raises_as_in_eager() -> None:
    def added(p: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return torch.add(p, p, alpha=factor)

    compiled = framejit.compile(added, backend="eager")
    for p, factor in (
        (torch.ones(3), torch.ones(2)),
        (torch.ones(3), torch.ones((), requires_grad=True)),
        (torch.ones(3, dtype=torch.int64), torch.tensor(0.5)),
    ):
        errors = []
        for function in (added, compiled):
            with pytest.raises((TypeError, RuntimeError)) as raised:
                function(p, factor)
            errors.append((raised.type, str(raised.value)))
        assert errors[0] == errors[1]
