"""Results of operators that write to tensors whose elements aren't in the order of a contiguous one have eager's strides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import framejit

Program = Callable[[torch.Tensor], tuple[torch.Tensor, ...]]
SEVERAL = torch.tensor([[0, 1, 2, 3]])


def written(operator: Callable[[torch.Tensor], torch.Tensor]) -> Program:
    """A program that makes a tensor, lets the operator write to it, and computes from it."""

    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = x.t() * 2
        operator(z)
        return z, z + 1, z.exp().t()

    return program


OPERATORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "masked_fill_": lambda z: z.masked_fill_(z > 0, 7.0), "scatter_": lambda z: z.scatter_(0, SEVERAL, 1.0), "tril_": lambda z: z.tril_(),
    "index_add_": lambda z: z.index_add_(0, SEVERAL[0], torch.ones(4, 4)), "cumsum_": lambda z: z.cumsum_(0), "renorm_": lambda z: z.renorm_(2, 0, 1.0),
    "masked_scatter_": lambda z: z.masked_scatter_(z > 0, torch.ones(16)), "add_": lambda z: z.add_(1),
    "out": lambda z: torch.add(torch.ones(4, 4), 1, out=z), "out of integers": lambda z: torch.sum(SEVERAL.expand(4, 4, 4), 0, out=z),
    "view": lambda z: z[:, 1:].masked_fill_(z[:, 1:] > 0, 2.0),
}  # fmt: skip


def form_and_data(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x.t_()
    x.masked_fill_(x > 0, 0.0)
    return x, x * 2


PROGRAMS = {name: written(operator) for name, operator in OPERATORS.items()} | {"form_and_data": form_and_data}


def check(program: Program, backend: str, size: int = 4, compiled: Program | None = None) -> None:
    torch.manual_seed(size)
    x = torch.randn(size, 4) if program is form_and_data else torch.randn(4, size)
    again = x.clone()
    expected, found = program(x), (compiled or framejit.compile(program, backend=backend))(again)
    for one, other in zip((*expected, x), (*found, again)):
        torch.testing.assert_close(one, other)
        assert one.stride() == other.stride()


@pytest.mark.parametrize("name", PROGRAMS)
def test_strides_are_those_of_eager(name: str) -> None:
    check(PROGRAMS[name], "aot_eager")


@pytest.mark.parametrize("name", ["masked_fill_", "form_and_data"])
def test_strides_of_the_code_of_inductor(name: str) -> None:
    check(PROGRAMS[name], "inductor")


def test_sizes_that_vary() -> None:
    compiled = framejit.compile(PROGRAMS["masked_fill_"], backend="aot_eager")
    for size in (4, 6, 9):
        check(PROGRAMS["masked_fill_"], "aot_eager", size, compiled)


def test_gradients() -> None:
    def program(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        z = x.t() * x.t()
        z.masked_fill_(mask, 5.0)
        return z.sin()

    x, mask = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3) > 0
    gradients = []
    for function in (program, framejit.compile(program, backend="aot_eager")):
        result = function(x, mask)
        assert result.stride() == (1, 3)
        gradients.append(torch.autograd.grad(result.sum(), x)[0])
    torch.testing.assert_close(gradients[1], gradients[0])
