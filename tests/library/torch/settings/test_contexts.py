"""Contexts and settings in training: autocast, grad modes, record_function and the profiler, flags of torch.backends, against eager."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from named import Programs
from streams import does_as_eager, seed, story
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.checkpoint import checkpoint

import framejit

BACKENDS = ("eager", "aot_eager")
WHOLE = Programs()
"""By name: programs that are never split."""
SPLIT = Programs()
"""Programs that are split."""
whole, split = WHOLE.add, SPLIT.add


def settings() -> list[Any]:
    """torch's modes and settings on this thread."""
    return [
        torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"),
        torch.is_autocast_cache_enabled(), torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled(),
        torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic, torch.backends.mkldnn.enabled,
        torch.is_anomaly_enabled(),
    ]  # fmt: skip


@pytest.fixture(autouse=True)
def settings_stay() -> Iterator[None]:
    before = settings()
    yield
    found = settings()
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = False
    assert found == before


class State:
    def __init__(self) -> None:
        self.x = torch.randn(4, 6)
        self.y = torch.randint(0, 6, (4,))
        self.w = torch.randn(6, 6, requires_grad=True)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        self.calls = 0


def bf16() -> torch.autocast:
    return torch.autocast("cpu", dtype=torch.bfloat16)


# Autocast.


@whole
def around_the_forward(s):
    s.optimizer.zero_grad(set_to_none=False)
    with bf16():
        loss = F.cross_entropy(s.model(s.x), s.y)
    loss.backward()
    s.optimizer.step()
    return loss


@whole
def around_all(s):
    s.optimizer.zero_grad(set_to_none=False)
    with bf16():
        loss = F.cross_entropy(s.model(s.x), s.y)
        loss.backward()
    s.optimizer.step()
    return loss


@whole
def half_precision(s):
    with torch.autocast("cpu", dtype=torch.float16):
        out = s.x @ s.w
    return out, out.float() @ s.w


@whole
def off_inside(s):
    with bf16():
        a = s.x @ s.w
        with torch.autocast("cpu", enabled=False):
            b = a.float() @ s.w
        return a, b, a @ s.w


@whole
def without_cache(s):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        return s.x @ s.w + s.x @ s.w, torch.is_autocast_cache_enabled()


@whole
def questions(s):
    seen = [torch.is_autocast_enabled("cpu")]
    with torch.autocast("cpu", dtype=torch.float16):
        seen += [torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()]
    return seen, torch.get_autocast_dtype("cpu"), s.x + 1


@bf16()
def decorated(x, w):
    return x @ w


@whole
def by_a_decorator(s):
    @torch.autocast("cpu", enabled=False)
    def inner(x):
        return x @ s.w

    return decorated(s.x, s.w), inner(s.x)


@whole
def left_by_an_exception(s):
    try:
        with bf16():
            a = s.x @ s.w
            raise ValueError
    except ValueError:
        return a, s.x @ s.w


@split
def chosen_by_call(s):
    s.calls += 1
    with contextlib.nullcontext() if s.calls % 2 else bf16():
        return s.x @ s.w


@split
def a_break_inside_autocast(s):
    with bf16():
        a = s.x @ s.w
        print(end="")
        b = s.x @ s.w
    return a, b, s.x @ s.w, settings()


@split
def scaled(s):
    s.optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = F.cross_entropy(s.model(s.x), s.y)
    s.scaler.scale(loss).backward()
    s.scaler.step(s.optimizer)
    s.scaler.update()
    return loss, s.scaler.get_scale()


@split
def switched_by_hand(s):
    torch.set_autocast_enabled("cpu", True)
    torch.set_autocast_dtype("cpu", torch.float16)
    a = s.x @ s.w
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    torch.set_autocast_enabled("cpu", False)
    return a, s.x @ s.w


# Grad modes.


@whole
def updated_without_grad(s):
    loss = (s.x @ s.w).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        s.w -= 0.01 * s.w.grad
        s.w.grad = None
    return loss


@whole
def enabled_inside(s):
    with torch.no_grad():
        a = s.x @ s.w
        with torch.enable_grad():
            b = s.x @ s.w
        c = s.x @ s.w
    return a, b, c


@whole
def switched_in_a_loop(s):
    total = s.x.sum()
    for i in range(3):
        with torch.set_grad_enabled(i == 2):
            total = total + (s.x @ s.w).sum()
    return total, torch.is_grad_enabled()


@whole
def set_and_set_back(s):
    torch.set_grad_enabled(False)
    a = s.x @ s.w
    torch.set_grad_enabled(True)
    return a, s.x @ s.w


@whole
def inference(s):
    with torch.inference_mode():
        return (s.x @ s.w).sum(), torch.is_inference_mode_enabled()


@whole
def inference_switched_off(s):
    with torch.inference_mode(False):
        return s.x @ s.w


@split
def grad_by_call(s):
    s.calls += 1
    with torch.set_grad_enabled(s.calls % 2 == 0):
        a = s.x @ s.w
    return a, torch.is_grad_enabled()


# Profiling.


@whole
def recorded(s):
    with record_function("outer"):
        with torch.autograd.profiler.record_function("inner"):
            a = s.x @ s.w
        return a + 1


@record_function("decorated")
def recorded_function(x):
    return x + 1


@whole
def recorded_by_a_decorator(s):
    return recorded_function(s.x)


@split
def a_break_inside_record_function(s):
    with record_function("outer"):
        a = s.x @ s.w
        print(end="")
        return a + 1


@split
def profiled_inside(s):
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        a = s.x @ s.w
    return a, len(seen.key_averages()) > 0


# Settings.


@whole
def read(s):
    flags = torch.backends.cudnn
    x = s.x + flags.benchmark + flags.deterministic + torch.are_deterministic_algorithms_enabled()
    return x, torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32, torch.backends.mkldnn.is_available(), torch.get_default_dtype()


@split
def deterministic(s):
    torch.use_deterministic_algorithms(True)
    a = s.x.index_add(0, torch.tensor([0, 0]), s.x[:2]), torch.empty(2).isnan()
    torch.use_deterministic_algorithms(False)
    return a


@whole
def default_dtype(s):
    torch.set_default_dtype(torch.float64)
    a = torch.ones(3) * 0.1
    torch.set_default_dtype(torch.float32)
    return a, torch.ones(2)


@split
def precision(s):
    torch.set_float32_matmul_precision("high")
    seen = s.x @ s.w, torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    return seen


@whole
def settings_of_autograd(s):
    with torch.autograd.graph.disable_saved_tensors_hooks("forbidden"), torch.autograd.set_multithreading_enabled(False):
        loss = (s.x @ s.w).relu().sum()
        loss.backward()
        seen = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message(), torch._C._is_multithreading_enabled()
    return loss, s.w.grad, seen


@split
def hooks_that_are_forbidden(s):
    with torch.autograd.graph.disable_saved_tensors_hooks("forbidden"):
        y = s.x @ s.w
        seen = []
        for run in (lambda: torch.autograd.graph.save_on_cpu().__enter__(), lambda: checkpoint(torch.relu, y, use_reentrant=False)):
            try:
                run()
            except RuntimeError as error:
                seen.append(str(error))
    with torch.autograd.graph.save_on_cpu():
        return y.exp(), seen


@split
def flags_written(s):
    torch.backends.cudnn.benchmark = True
    seen = s.x + torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = False
    with torch.backends.mkldnn.flags(enabled=False):
        return seen, s.x @ s.w


ROUNDED = {"around_the_forward", "around_all", "scaled"}
"""Programs whose gradients AOTAutograd rounds elsewhere."""


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for part in parts for tensor in tensors(part)]


def compared(name: str, fn: Callable[..., Any], backend: str) -> dict[str, Any]:
    if backend == "eager" or name not in ROUNDED:
        return does_as_eager(State, fn, backend)
    framejit.reset()
    expected, found = tensors(story(State, fn)), tensors(story(State, framejit.compile(fn, backend=backend)))
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)
    return framejit.statistics()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", WHOLE)
def test_programs_that_are_never_split(name: str, backend: str) -> None:
    found = compared(name, WHOLE[name], backend)
    assert found["graph_breaks"] == 0 and found["graphs"] <= 2, found["reasons"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SPLIT)
def test_programs_that_are_split(name: str, backend: str) -> None:
    compared(name, SPLIT[name], backend)


AROUND: dict[str, Callable[[], Any]] = {
    "nothing": contextlib.nullcontext,
    "bf16": bf16,
    "fp16": lambda: torch.autocast("cpu", dtype=torch.float16),
    "bf16 without cache": lambda: torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False),
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "record_function": lambda: record_function("around"),
    "profile": lambda: profile(activities=[ProfilerActivity.CPU]),
    "flags": lambda: torch.backends.mkldnn.flags(enabled=False),
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_contexts_around_the_call(backend: str) -> None:
    def fn(s):
        return s.x @ s.w, settings()

    seed(1)
    state = State()
    compiled = framejit.compile(fn, backend=backend)
    for _ in range(2):
        for name, context in AROUND.items():
            with context():
                expected = fn(state)
                found = compiled(state)
            assert found[1] == expected[1], name
            assert (found[0].dtype, found[0].requires_grad, found[0].is_inference()) == (
                expected[0].dtype, expected[0].requires_grad, expected[0].is_inference(),
            ), name  # fmt: skip
            torch.testing.assert_close(found[0].detach().clone(), expected[0].detach().clone())


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backward_outside_of_a_forward_in_autocast(backend: str) -> None:
    def forward(s):
        with bf16():
            return F.cross_entropy(s.model(s.x), s.y)

    told = []
    for call in (forward, framejit.compile(forward, backend=backend)):
        seed(1)
        s = State()
        for _ in range(3):
            s.optimizer.zero_grad()
            call(s).backward()
            s.optimizer.step()
        told.append([[p.detach().clone(), p.grad.clone()] for p in s.model.parameters()])
    torch.testing.assert_close(tensors(told[1]), tensors(told[0]), rtol=0.0 if backend == "eager" else 0.02, atol=0.0 if backend == "eager" else 0.02)
