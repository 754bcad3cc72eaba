"""Function modes that are in force when a compiled function is called: traced as if the function had entered them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import Comparison
from torch import nn
from torch.overrides import TorchFunctionMode

import framejit

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


class Noting(TorchFunctionMode):
    """Notes what it is asked, and multiplies what sin gives."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.seen: list[Any] = []
        self.factor = factor

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func)
        result = func(*args, **(kwargs or {}))
        return result * self.factor if func in (torch.sin, torch.Tensor.sin) else result


def under(function: Callable[..., Any], *args: Any, modes: Callable[[], list[Any]], graphs: int | None = 1, backend: str = "eager") -> None:
    """Under new modes in each call, the compiled function gives what the function gives, and the modes see what they see in eager."""
    compiled = framejit.compile(function, backend=backend, isolate_recompiles=True, fullgraph=graphs == 1)
    before = framejit.statistics()["graphs"]
    for _ in range(3):
        runs = []
        for fn in (function, compiled):
            made = modes()
            with contextlib.ExitStack() as entered:
                for mode in made:
                    entered.enter_context(mode)
                result = fn(*args)
                depth = torch._C._len_torch_function_stack()
            runs.append((result, depth, [list(map(repr, mode.seen)) for mode in made if isinstance(mode, Noting)]))
        Comparison().same(*runs)
    assert graphs is None or framejit.statistics()["graphs"] == before + graphs


def program(x: torch.Tensor) -> Any:
    y = torch.sin(x) + F.relu(x)
    x.exp()
    return y.sum(0), y.shape, torch.ones(2), torch.tensor([1.0]) * 2


@BACKENDS
def test_a_mode_is_traced(backend: str) -> None:
    under(program, torch.randn(3, 2), modes=lambda: [Noting(2.0)], backend=backend)
    under(program, torch.randn(3, 2), modes=lambda: [Noting(2.0), Noting(3.0)], backend=backend)


@BACKENDS
def test_above_and_below_a_default_device(backend: str) -> None:
    def made(x: torch.Tensor) -> Any:
        return x.sin(), torch.ones(2).device

    under(made, torch.randn(3), modes=lambda: [torch.device("meta"), Noting(2.0)], backend=backend)
    under(lambda x: (made(x), torch.get_default_device()), torch.randn(3), modes=lambda: [Noting(2.0), torch.device("meta")], backend=backend)


def test_what_the_trace_reads_of_a_mode_is_guarded() -> None:
    compiled = framejit.compile(lambda x: x.sin(), backend="eager", fullgraph=True)
    x = torch.ones(2)
    for factor in (2.0, 3.0, 2.0):
        with Noting(factor):
            result = compiled(x)
        assert result.equal(x.sin() * factor)
        assert compiled(x).equal(x.sin())


def test_behind_a_break_and_inside_other_modes() -> None:
    def program(x: torch.Tensor) -> Any:
        y = torch.sin(x)
        framejit.graph_break()
        with Noting(5.0) as inner:
            z = y.sin()
            framejit.graph_break()
            z = z.sin() + torch.ones(())
        return z.sin(), [func is torch.Tensor.sin for func in inner.seen]

    under(program, torch.ones(2), modes=lambda: [], graphs=None)
    under(program, torch.ones(2), modes=lambda: [Noting(2.0)], graphs=3)


@BACKENDS
def test_training_under_a_mode(backend: str) -> None:
    def step(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        loss = model(x).sin().square().sum()
        loss.backward()
        return loss.detach()

    grads = []
    for compiles in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        fn = framejit.compile(step, backend=backend) if compiles else step
        for _ in range(2):
            with Noting(2.0):
                fn(model, torch.ones(2, 3))
        grads.append([p.grad for p in model.parameters()])
    Comparison().same(*grads)


def test_a_mode_that_is_left_and_one_that_is_entered_for_good() -> None:
    def program(mode: Any, x: torch.Tensor) -> Any:
        y = x.sin()
        mode.__exit__(None, None, None)
        z = x.sin()
        left.__enter__()
        return y, z, x.sin()

    runs = []
    for fn in (program, framejit.compile(program, backend="eager", fullgraph=True)):
        mode, left = Noting(2.0), Noting(3.0)
        mode.__enter__()
        result = fn(mode, torch.ones(2))
        stack = [m is left for m in torch.overrides._get_current_function_mode_stack()]
        left.__exit__(None, None, None)
        runs.append((result, stack, len(mode.seen), len(left.seen)))
    Comparison().same(*runs)


def test_an_error_of_the_graph_leaves_the_modes_in_force() -> None:
    compiled = framejit.compile(lambda x, i: x.sin()[i] + 1, backend="eager", fullgraph=True)
    with Noting(2.0) as mode:
        with pytest.raises(IndexError):
            compiled(torch.ones(2), torch.tensor([7]))
        assert torch.overrides._get_current_function_mode_stack() == [mode]


@BACKENDS
def test_the_default_device_is_set_inside(backend: str) -> None:
    def program(x: torch.Tensor) -> Any:
        torch.set_default_device("meta")
        y = torch.ones(2)
        torch.set_default_device("cpu")
        z = torch.ones(2) + x
        torch.set_default_device(None)
        return y.device, z, torch.ones(2).device, torch.get_default_device()

    def left(x: torch.Tensor) -> Any:
        torch.set_default_device("meta")
        return torch.ones(2), x * 2

    try:
        under(program, torch.ones(2), modes=lambda: [], backend=backend)
        under(program, torch.ones(2), modes=lambda: [Noting()], backend=backend)
        compiled = framejit.compile(left, backend=backend, fullgraph=True)
        result = compiled(torch.ones(2))
        assert (result[0].device.type, result[1].device.type) == ("meta", "cpu")
        assert torch.get_default_device().type == torch.ones(2).device.type == "meta"
    finally:
        torch.set_default_device(None)


class Printing(TorchFunctionMode):
    """Prints what it is asked, which no graph does."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        print(func.__name__)
        return func(*args, **(kwargs or {}))


def test_under_a_mode_that_cannot_be_traced_calls_run_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    framejit.reset()
    compiled = framejit.compile(lambda x: (x.sin() + 1).cos(), backend="eager")
    x = torch.ones(2)
    for _ in range(3):
        with Printing():
            compiled(x)
        assert capsys.readouterr().out.split() == ["sin", "add", "cos"]
    assert framejit.statistics()["graph_breaks"] == 0 and framejit.statistics()["graphs"] == 0
    assert [reason[:5] for reason in framejit.statistics()["reasons"]] == ["FJ038"]
    compiled(torch.ones(2))
    assert framejit.statistics()["graphs"] == 1


def test_data_decides_under_a_mode() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return y.cos() if y.sum() > 0 else y.tan()

    under(program, torch.ones(2), modes=lambda: [Noting(2.0)], graphs=2)


def test_a_gradient_that_is_dropped_is_told_to_the_mode_once() -> None:
    layer = nn.Linear(2, 2)

    def step(x: torch.Tensor) -> torch.Tensor:
        layer.weight.grad = None
        loss = layer(x).sum()
        layer.weight.grad = torch.ones_like(layer.weight) * loss.detach()
        return loss.detach()

    under(step, torch.ones(1, 2), modes=lambda: [Noting()])


def test_a_default_device_is_off_where_all_modes_are() -> None:
    def switched_off(x: torch.Tensor) -> Any:
        with torch._C.DisableTorchFunction():
            made = torch.ones(1)
        return x + made, torch.ones(1).device.type

    with torch.device("meta"):
        found = framejit.compile(switched_off, backend="eager")(torch.ones(1, device="cpu"))
    assert found[0].item() == 2.0 and found[1] == "meta"


@pytest.mark.skipif(torch.__version__ < "2.13", reason="torch 2.11 compiles torch.cond itself, and fails under a mode that counts")
def test_operators_that_take_functions_are_asked_for_as_a_whole() -> None:
    def decided(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    decided(torch.ones(3))  # the first call of a process does more
    under(decided, torch.ones(3), modes=lambda: [Noting(2.0)], graphs=None)
