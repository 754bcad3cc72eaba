"""Signals that come while a frame is traced: their handlers run between two operations, and what they raise comes out as it is."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import framejit
from framejit.process import interrupts

X = torch.tensor([1.0, 2.0, 3.0])


@contextlib.contextmanager
def handler(function: Any, number: int = signal.SIGUSR1) -> Iterator[None]:
    before = signal.signal(number, function)
    try:
        yield
    finally:
        assert signal.getsignal(number) is function
        signal.signal(number, before)


@pytest.fixture(autouse=True)
def counts_begin_anew() -> None:
    framejit.reset()


def interrupting(at: str, monkeypatch: pytest.MonkeyPatch, number: int = signal.SIGUSR1) -> list[str]:
    """Let a signal come each time that a trace runs the operator of that name on fake tensors. Gives what came."""
    came: list[str] = []
    original = torch._subclasses.fake_tensor.FakeTensorMode.__torch_dispatch__

    def dispatch(self: Any, function: Any, *args: Any) -> Any:
        if at in str(function):
            came.append(str(function))
            signal.raise_signal(number)
        return original(self, function, *args)

    monkeypatch.setattr(torch._subclasses.fake_tensor.FakeTensorMode, "__torch_dispatch__", dispatch)
    return came


class TimedOut(Exception):
    pass


def time_out(number: int, frame: Any) -> None:
    raise TimedOut


def ctrl_c(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def program(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        y = torch.relu(x)
        for number in range(1, 4):
            y = y + number
    try:
        return torch.sin(y)
    except RuntimeError:
        return y


@pytest.mark.parametrize("at", ["relu", "add", "sin"])
@pytest.mark.parametrize(("function", "error"), [(time_out, TimedOut), (ctrl_c, KeyboardInterrupt)])
def test_what_a_handler_raises_comes_out_and_leaves_all_as_it_was(at, function, error, monkeypatch):
    fn = framejit.compile(program, backend="eager", fullgraph=True)
    with handler(function), monkeypatch.context() as patched:
        came = interrupting(at, patched)
        with pytest.raises(error) as raised:
            fn(X)
        assert came and raised.value.__context__ is None
        assert torch.is_grad_enabled() and not torch._C._len_torch_dispatch_stack()
    counts = framejit.statistics()
    assert counts["fallbacks"] == counts["frames"] == counts["internal_errors"] == 0
    assert torch.equal(fn(X), program(X)) and framejit.statistics()["frames"] == 1


@pytest.mark.only_eager("AOTAutograd runs each operator on fakes once more: the handler is called as often")
def test_a_trace_goes_on_after_a_handler_that_returns(monkeypatch):
    seen = []
    fn = framejit.compile(program, backend="eager", fullgraph=True)
    with handler(lambda number, frame: seen.append((number, frame is not None))), monkeypatch.context() as patched:
        came = interrupting("add", patched)
        assert torch.equal(fn(X), program(X))
    assert seen == [(signal.SIGUSR1, True)] * len(came) and len(came) == 3
    assert framejit.statistics()["frames"] == 1


def test_a_loop_without_operations(monkeypatch):
    def spin(x, n):
        while n > 0:
            n -= 1
        return x + n

    iterations = []
    original = interrupts.heed

    def heed() -> None:
        iterations.append(1)
        if len(iterations) == 500:
            signal.raise_signal(signal.SIGUSR1)
        original()

    monkeypatch.setattr(interrupts, "heed", heed)
    with handler(time_out), pytest.raises(TimedOut):
        framejit.compile(spin, backend="eager")(X, 1_000)
    assert len(iterations) == 500


def test_in_a_backend_handlers_run_at_once():
    order = []

    def backend(gm: Any, inputs: Any) -> Any:
        order.append("backend")
        signal.raise_signal(signal.SIGUSR1)
        order.append("compiled")
        return gm

    with handler(lambda number, frame: order.append("handler")):
        assert torch.equal(framejit.compile(program, backend=backend)(X), program(X))
    assert order == ["backend", "handler", "compiled"]
    framejit.reset()
    with handler(time_out), pytest.raises(TimedOut):  # no BackendError: it is none of the backend's
        framejit.compile(program, backend=backend)(X)
    assert order == ["backend", "handler", "compiled", "backend"]


def test_a_handler_that_a_backend_sets_stays():
    def backend(gm: Any, inputs: Any) -> Any:
        signal.signal(signal.SIGUSR1, ctrl_c)
        return gm

    before = signal.signal(signal.SIGUSR1, time_out)
    try:
        framejit.compile(program, backend=backend)(X)
        assert signal.getsignal(signal.SIGUSR1) is ctrl_c
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_compiling_in_a_backend_and_on_other_threads():
    inner = framejit.compile(lambda x: x * 2, backend="eager")

    def backend(gm: Any, inputs: Any) -> Any:
        inner(X)
        signal.raise_signal(signal.SIGUSR1)
        return gm

    seen = []
    with handler(lambda number, frame: seen.append(number)):
        framejit.compile(program, backend=backend)(X)
        assert len(seen) == 1
        fn = framejit.compile(program, backend="eager", isolate_recompiles=True)
        other = threading.Thread(target=fn, args=(X,))
        other.start()
        other.join()
        assert torch.equal(fn(X), program(X))


def test_ctrl_c_behind_a_break_leaves_the_blocks_that_the_call_is_in(monkeypatch):
    left = []

    class Block:
        def __enter__(self) -> None:
            pass

        def __exit__(self, kind: Any, *rest: Any) -> None:
            left.append(kind)

    def broken(x: torch.Tensor) -> torch.Tensor:
        with Block():
            print("in the block")
            return torch.sin(x)

    with handler(ctrl_c), monkeypatch.context() as patched:
        interrupting("sin", patched)
        with pytest.raises(KeyboardInterrupt):
            framejit.compile(broken, backend="eager")(X)
    assert left == [KeyboardInterrupt]
