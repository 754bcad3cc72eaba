"""Flags of torch.backends that the program sets inside a compiled function."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import Comparison

import framejit

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


@torch.library.custom_op("flags_test::onednn_is_on", mutates_args=())
def onednn_is_on(x: torch.Tensor) -> torch.Tensor:
    return x * 0 + torch._C._get_mkldnn_enabled()


@onednn_is_on.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("flags_test::threads_of", mutates_args=())
def threads_of(x: torch.Tensor) -> torch.Tensor:
    return x * 0 + torch.get_num_threads()


@threads_of.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@BACKENDS
def test_flags_that_mean_nothing_for_the_operators(backend: str) -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> Any:
        with torch.backends.cudnn.flags(enabled=False, deterministic=True):
            y = F.conv2d(x, w)
            inside = torch.backends.cudnn.enabled, torch.backends.cudnn.deterministic
        return y + 1, inside, torch.backends.cudnn.enabled

    args = torch.randn(2, 3, 4, 4), torch.randn(2, 3, 3, 3)
    Comparison().same(program(*args), framejit.compile(program, backend=backend, fullgraph=True)(*args))


@pytest.mark.parametrize("was", [True, False])
def test_flags_that_are_left_set(was: bool) -> None:
    def program(x: torch.Tensor) -> Any:
        before = torch.backends.cudnn.benchmark
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.deterministic = not before
        return x.sin(), before, torch.backends.cudnn.benchmark

    x = torch.ones(2)
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    runs = []
    for fn in (program, compiled, compiled):
        torch.backends.cudnn.benchmark = was
        torch.backends.cudnn.deterministic = False
        runs.append((fn(x), torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic))
    torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = False
    Comparison().same(*runs[:2])
    Comparison().same(*runs[1:])


@pytest.mark.only_eager("names its backends")
@pytest.mark.parametrize(("backend", "graphs"), [("eager", 1), ("aot_eager", 2)])
def test_operators_run_with_the_flags(backend: str, graphs: int) -> None:
    def program(x: torch.Tensor, enabled: bool) -> Any:
        y = onednn_is_on(x)
        with torch.backends.mkldnn.flags(enabled=enabled):
            z = onednn_is_on(x).add_(1)
        return y, z, onednn_is_on(x)

    for enabled in (False, True):
        compiled = framejit.compile(program, backend=backend, isolate_recompiles=True)
        before = framejit.statistics()["graphs"]
        for _ in range(2):
            Comparison().same(program(torch.ones(2), enabled), compiled(torch.ones(2), enabled))
        assert framejit.statistics()["graphs"] == before + (1 if enabled else graphs)
        assert torch.backends.mkldnn.enabled


def test_what_shows_several_settings_splits_the_graph() -> None:
    def program(x: torch.Tensor) -> Any:
        torch.backends.cudnn.allow_tf32 = False
        found = torch._C._get_fp32_precision_getter("cuda", "conv")
        torch.backends.cudnn.allow_tf32 = True
        return x * 2, found, torch._C._get_fp32_precision_getter("cuda", "conv")

    compiled = framejit.compile(program, backend="eager")
    for _ in range(2):
        Comparison().same(program(torch.ones(2)), compiled(torch.ones(2)))


@BACKENDS
def test_the_precision_and_the_threads_are_set_and_read(backend: str) -> None:
    def program(x: torch.Tensor) -> Any:
        before = torch.get_float32_matmul_precision(), torch.get_num_threads()
        torch.set_float32_matmul_precision("high")
        torch.set_num_threads(1)
        return x @ x, before, torch.get_float32_matmul_precision(), torch.get_num_threads()

    x, threads = torch.randn(3, 3), torch.get_num_threads()
    compiled = framejit.compile(program, backend=backend, isolate_recompiles=True)
    runs = []
    try:
        for fn in (program, compiled):
            torch.set_float32_matmul_precision("highest")
            torch.set_num_threads(2)
            runs.append([(fn(x), torch.get_float32_matmul_precision(), torch.get_num_threads()) for _ in range(3)])
    finally:
        torch.set_float32_matmul_precision("highest")
        torch.set_num_threads(threads)
    Comparison().same(*runs)


@pytest.mark.only_eager("with AOTAutograd, operators under a setting that the graph changes split it")
def test_operators_run_with_the_threads_that_were_set() -> None:
    def program(x: torch.Tensor) -> Any:
        before = torch.get_num_threads()
        torch.set_num_threads(before + 1)
        inside = threads_of(x)
        torch.set_num_threads(before)
        return inside, threads_of(x)

    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    threads = torch.get_num_threads()
    for _ in range(2):
        Comparison().same(program(torch.ones(2)), compiled(torch.ones(2)))
    assert torch.get_num_threads() == threads


def test_a_number_of_threads_that_torch_refuses_is_left_to_it() -> None:
    def program(x: torch.Tensor) -> Any:
        torch.set_num_threads(0)
        return x + 1

    with pytest.raises(RuntimeError, match="positive"):
        framejit.compile(program, backend="eager")(torch.ones(2))
