"""`torch.ops.higher_order.print` writes what it writes in eager mode, in the same order, and splits the graph only where a graph can not write it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framejit

PRINT: Any = getattr(torch.ops.higher_order, "print", None)
pytestmark = pytest.mark.skipif(PRINT is None, reason="this torch has no such operator")
X = torch.arange(3.0)


def values(x: torch.Tensor, count: int = 3) -> torch.Tensor:
    y = x + 1
    PRINT("{} of {shape}: {y}", count, shape=(1, "a"), y=y)
    PRINT("nothing")
    return y.sum()


def before_and_after_a_change(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    PRINT("{}", y)
    y.add_(1)
    PRINT("{}", y)
    x.mul_(3)
    PRINT("{:.1f}", x.sum())
    return y


def between_others(x: torch.Tensor) -> torch.Tensor:
    PRINT("first {}", x)
    print("second")
    PRINT("third {}", x + 1)
    return x


def raises_after(x: torch.Tensor) -> torch.Tensor:
    PRINT("{}", x + 1)
    raise ValueError(x.dim())


def has_too_few(x: torch.Tensor) -> Any:
    try:
        PRINT("{} {}", 1)
    except IndexError as error:
        return x + 1, str(error)


def with_an_object(x: torch.Tensor) -> torch.Tensor:
    PRINT("{}", object.__class__)
    PRINT("{name}", name={"x": [x]})
    return x + 1


def outcome(function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> list[str]:
    """The results, errors, texts and changes of some calls."""
    found, calls = [], [tuple(arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in call) for call in calls]
    for call in calls:
        with contextlib.redirect_stdout(io.StringIO()) as written:
            try:
                result = repr(function(*call))
            except ValueError as error:
                result = repr(error)
        found.append(f"{result}\n{written.getvalue()}\n{call}")
    return found


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize(
    ("program", "breaks"), [(values, 0), (before_and_after_a_change, 0), (between_others, 1), (raises_after, 0), (has_too_few, 1), (with_an_object, None)]
)
def test_texts_are_those_of_eager_mode(program: Callable[..., Any], breaks: int | None, backend: str) -> None:
    framejit.reset()
    calls: list[tuple[Any, ...]] = [(X,), (X + 1,)]
    assert outcome(framejit.compile(program, backend=backend), calls) == outcome(program, calls)
    if backend == "eager":  # the others change the order, or write no record
        assert breaks in (None, framejit.statistics()["graph_breaks"])


def test_a_number_that_varies() -> None:
    framejit.reset()
    calls: list[tuple[Any, ...]] = [(X, number) for number in (1, 2, 3, 0, 10**20, True, 2.5, 3.5, 4.5)]
    assert outcome(framejit.compile(values, backend="eager"), calls[:4]) == outcome(values, calls[:4])
    assert framejit.statistics()["graphs"] == 2
    assert outcome(framejit.compile(values, backend="aot_eager"), calls) == outcome(values, calls)
    assert outcome(framejit.compile(values, backend="eager"), calls) == outcome(values, calls)


@pytest.mark.parametrize("kind", ["requires a gradient", "a parameter", "a frozen parameter"])
def test_tensors_that_are_written_with_more_than_data(kind: str) -> None:
    """AOTAutograd's graph has plain tensors without a record."""

    def program(x: torch.Tensor) -> torch.Tensor:
        PRINT("{}", x)
        return x.detach() + 1

    made = {"requires a gradient": X.clone().requires_grad_(), "a parameter": torch.nn.Parameter(X), "a frozen parameter": torch.nn.Parameter(X, False)}[kind]
    for backend in ("eager", "aot_eager"):
        framejit.reset()
        for call in (program, framejit.compile(program, backend=backend)):
            with contextlib.redirect_stdout(io.StringIO()) as written:
                call(made)
            assert written.getvalue() == f"{made}\n"
        assert framejit.statistics()["graph_breaks"] == (backend != "eager")


def test_a_call_that_runs_again_in_the_backward_pass() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        def part(x: torch.Tensor) -> torch.Tensor:
            PRINT("{}", x.detach().sum())
            return x.sin()

        return torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False)

    def written(call: Callable[..., Any]) -> Any:
        x = X.clone().requires_grad_()
        with contextlib.redirect_stdout(io.StringIO()) as found:
            call(x).sum().backward()
        return found.getvalue(), x.grad.tolist()

    assert written(framejit.compile(program, backend="eager")) == written(program)
