"""torch.use_deterministic_algorithms inside compiled functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from agreement import Comparison

import framejit

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


@pytest.fixture(autouse=True)
def setting_stays() -> Iterator[None]:
    yield
    torch.use_deterministic_algorithms(False)


def seen() -> tuple[bool, bool, int]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled(), torch.get_deterministic_debug_mode()


@torch.library.custom_op("determinism_test::is_on", mutates_args=())
def is_on(x: torch.Tensor) -> torch.Tensor:
    return x * 0 + torch.are_deterministic_algorithms_enabled()


@is_on.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def agree_from(program: Any, backend: str, *args: Any) -> None:
    """Results and the setting left behind are eager's, called while it is off, off again, and on."""
    framejit.reset()
    compiled = framejit.compile(program, backend=backend)
    for enabled in (False, False, True):
        found = []
        for function in (program, compiled):
            torch.use_deterministic_algorithms(enabled)
            found.append((function(*args), seen(), torch._inductor.config.deterministic))
        Comparison().same(*found)



@pytest.mark.only_eager("the test names its backend")
@BACKENDS
def test_it_is_set_and_put_back(backend: str) -> None:
    def program(x: torch.Tensor) -> Any:
        before = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(True, warn_only=True)
        inside = is_on(x), torch.empty(2).isnan(), seen()
        torch.use_deterministic_algorithms(before)
        return inside, is_on(x + 1), seen()

    agree_from(program, backend, torch.ones(3))
    if backend == "eager":
        assert framejit.statistics()["graph_breaks"] == 0


@BACKENDS
def test_it_is_left_set(backend: str) -> None:
    def program(x: torch.Tensor) -> Any:
        y = is_on(x)
        torch.use_deterministic_algorithms(True)
        return y, seen()

    agree_from(program, backend, torch.ones(3))
    assert framejit.statistics()["graph_breaks"] == 0
    assert torch.are_deterministic_algorithms_enabled()


@BACKENDS
def test_it_is_set_to_what_it_is(backend: str) -> None:
    def program(x: torch.Tensor) -> Any:
        torch.use_deterministic_algorithms(True)
        return is_on(x) * 2

    torch.use_deterministic_algorithms(True)
    framejit.reset()
    compiled = framejit.compile(program, backend=backend)
    Comparison().same(program(torch.ones(3)), compiled(torch.ones(3)))
    assert framejit.statistics()["graph_breaks"] == 0
