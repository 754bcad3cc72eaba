"""The default dtype, as programs set it inside compiled functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from agreement import Comparison

import framejit

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


@pytest.fixture(autouse=True)
def default_stays() -> Iterator[None]:
    yield
    torch.set_default_dtype(torch.float32)


def agree_from(program: Any, backend: str, *args: Any, defaults: tuple[torch.dtype, ...] = (torch.float32, torch.float32, torch.float64)) -> None:
    """Results, exceptions and the default dtype left behind are eager's, with these default dtypes at the call."""
    framejit.reset()
    compiled = framejit.compile(program, backend=backend)
    for default in defaults:
        seen = []
        for function in (program, compiled):
            torch.set_default_dtype(default)
            try:
                seen.append((function(*args), torch.get_default_dtype()))
            except RuntimeError as error:
                seen.append((str(error), torch.get_default_dtype()))
            torch.set_default_dtype(torch.float32)
        Comparison().same(*seen)



@BACKENDS
def test_what_is_made_under_it(backend: str) -> None:
    def program(x: torch.Tensor) -> Any:
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float16)
        made = [torch.ones(3), torch.tensor([1.5, 2]), torch.arange(0.0, 3.0), torch.full((2,), 0.1), torch.zeros(2, dtype=torch.int8), torch.eye(2)]
        inside = torch.get_default_dtype(), x + torch.ones(3), x.new_zeros(2), torch.where(x > 0, x, x * 0.1), x.to(torch.float16)
        torch.set_default_dtype(before)
        return made, inside, torch.ones(3), torch.get_default_dtype()

    agree_from(program, backend, torch.tensor([1.0, -2.0, 3.0]))
    assert framejit.statistics()["graph_breaks"] == 0


@pytest.mark.only_eager("with AOTAutograd, operators under a setting that the graph changes split it")
def test_what_integers_become() -> None:
    def program(x: torch.Tensor) -> Any:
        torch.set_default_dtype(torch.float64)
        y = x / 2, x * 0.5, x.sum() / x.numel()
        torch.set_default_dtype(torch.float32)
        return y, x / 2

    agree_from(program, "eager", torch.arange(3))
    assert framejit.statistics()["graph_breaks"] == 0
    agree_from(program, "aot_eager", torch.arange(3))


@BACKENDS
def test_it_is_left_set(backend: str) -> None:
    def program(x: torch.Tensor) -> Any:
        torch.set_default_dtype(torch.float64)
        return x + torch.ones(3), torch.tensor(0.5)

    agree_from(program, backend, torch.ones(3))


@BACKENDS
def test_across_a_graph_break(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    def program(x: torch.Tensor) -> Any:
        before = torch.get_default_dtype()
        try:
            torch.set_default_dtype(torch.float64)
            y = torch.ones(3) * x.sum()
            print("half")
            z = torch.ones(2) / 3
        finally:
            torch.set_default_dtype(before)
        return y, z, torch.ones(2)

    agree_from(program, backend, torch.ones(3))
    assert framejit.statistics()["graph_breaks"] in (1, 2)  # one for each default dtype at the call
    assert set(capsys.readouterr().out.split()) == {"half"}


@BACKENDS
def test_what_the_graph_raises_under_a_handler(backend: str) -> None:
    def program(x: torch.Tensor, i: torch.Tensor) -> Any:
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return torch.ones(3)[i] + x
        except IndexError:
            return torch.ones(2)
        finally:
            torch.set_default_dtype(before)

    compiled = framejit.compile(program, backend=backend)
    assert compiled(torch.ones(3), torch.tensor([0, 1, 2])).dtype is torch.float64
    for function in (program, compiled):
        assert function(torch.ones(3), torch.tensor([0, 1, 7])).tolist() == [1, 1]
        assert torch.get_default_dtype() is torch.float32
