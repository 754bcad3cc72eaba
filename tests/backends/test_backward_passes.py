"""The backward passes of a graph in pieces are compiled together, when the program needs the first."""

from __future__ import annotations

import copy
import functools
import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import agreement
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._functorch import config as functorch_config

import framejit
from framejit.backends import backward_passes, inductor_compile, translation_units

WHYS = list[str]
close = functools.partial(agreement.close, tolerance=1e-5)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    """Layers that repeat, and something before and after them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.layers, self.last = nn.Linear(8, 8), nn.ModuleList([Layer() for _ in range(4)]), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sin(self.first(x))
        for layer in self.layers:
            x = layer(x)
        return torch.softmax(self.last(x), -1)


@pytest.fixture(autouse=True)
def compiled_when_needed() -> Iterator[None]:
    """As where framejit's own cache is on. AOTAutograd's would want the code of backward passes at once, and so does FRAMEJIT_CHECK=cache."""
    with functorch_config.patch(enable_autograd_cache=False), framejit.config.replace(check="compile,guards,shapes"):
        yield


@pytest.fixture
def whys() -> Iterator[WHYS]:
    """The reasons of the compilations."""
    found: WHYS = []
    with framejit.on_compile(start=lambda compilation: found.append(compilation.why)):
        yield found


def made(**options: Any) -> tuple[nn.Module, Any, torch.Tensor]:
    model = Model()
    return model, framejit.compile(copy.deepcopy(model), backend="inductor", regions=True, **options), torch.randn(4, 8)


def step(run: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """The gradients of the parameters."""
    run.zero_grad()
    run(x).square().sum().backward()
    return [parameter.grad.clone() for parameter in run.parameters()]


def test_they_are_compiled_together(whys: WHYS, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    start = translation_units.start
    monkeypatch.setattr(translation_units, "start", lambda unit: (started.append(len(unit)), start(unit))[1])
    model, compiled, x = made()
    result = compiled(x)
    assert whys == ["first call"] and len(started) == 1
    close(result, model(x))
    for _ in range(2):
        close(step(compiled, x), step(model, x))
        assert whys == ["first call", "backward pass"] and len(started) == 2 and started[1] > 2


def test_the_backward_pass_runs_twice() -> None:
    model, compiled, x = made()
    gradients = []
    for run in (model, compiled):
        given = x.clone().requires_grad_()
        loss = run(given).square().sum()
        loss.backward(retain_graph=True)
        loss.backward()
        gradients.append([given.grad, *[parameter.grad for parameter in run.parameters()]])
    close(*gradients)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_backward_pass_that_first_ran_once_runs_twice(backend: str) -> None:
    """As losses that the program alternates: torch compiles a backward pass whose first run needs not keep what it uses so that it can't."""

    def heads(x: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
        hidden = (x @ weight).tanh()
        return [hidden.square().mean(), (hidden * 3).exp().mean()]

    compiled, outcomes = framejit.compile(heads, backend=backend), []
    for run in (heads, compiled):
        weight, found = torch.full((3, 3), 0.25, requires_grad=True), list[Any]()
        for step in range(3):
            first, second = run(torch.full((2, 3), 0.5), weight)
            first.backward(retain_graph=step % 2 == 1)
            if step % 2 == 1:
                second.backward()
            assert weight.grad is not None
            found.append(weight.grad.clone())
        outcomes.append(found)
    close(*outcomes)


def test_an_interrupted_compilation_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    model, compiled, x = made()
    compile_fx_inner, calls = inductor_compile.compile_fx_inner, []

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        calls.append(kwargs.get("is_backward"))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return compile_fx_inner(*args, **kwargs)

    compiled(x)
    monkeypatch.setattr(inductor_compile, "compile_fx_inner", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compiled(x).sum().backward()
    assert calls == [True, True]
    close(step(compiled, x), step(model, x))
    close(step(compiled, x), step(model, x))


def test_settings_of_the_forward_pass_are_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    model, compiled, x = made(options={"max_autotune_pointwise": True})
    compile_fx_inner, seen = inductor_compile.compile_fx_inner, []

    def watched(*args: Any, **kwargs: Any) -> Any:
        seen.append((torch._inductor.config.max_autotune_pointwise, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
        return compile_fx_inner(*args, **kwargs)

    loss = compiled(x).square().sum()
    monkeypatch.setattr(inductor_compile, "compile_fx_inner", watched)
    with torch.autocast("cpu", torch.bfloat16):
        loss.backward()
    assert seen and set(seen) == {(True, False, False)}
    close([parameter.grad for parameter in compiled.parameters()], step(model, x))


def test_several_threads_need_them_at_once(whys: WHYS) -> None:
    model, compiled, x = made()
    gradients: list[Any] = []
    losses = [compiled(x).square().sum() for _ in range(3)]
    parameters = list(compiled.parameters())
    threads = [threading.Thread(target=lambda loss=loss: gradients.append(torch.autograd.grad(loss, parameters))) for loss in losses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert whys == ["first call", "backward pass"] and len(gradients) == 3
    for found in gradients:
        close(list(found), step(model, x))


def test_sizes_that_vary(whys: WHYS) -> None:
    """Code for the backward pass may ask for guards on them, so it is compiled together with the forward pass."""
    model, compiled, x = made(dynamic=True)
    for rows in (4, 7):
        x = torch.randn(rows, 8)
        close(step(compiled, x), step(model, x))
    assert "backward pass" not in whys


def test_passes_that_are_never_needed_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[weakref.ref[Any]] = []

    class Watched(backward_passes.BackwardPass):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            waiting.append(weakref.ref(self))

    monkeypatch.setattr(backward_passes, "BackwardPass", Watched)
    _, compiled, x = made()
    compiled(x)
    assert len(waiting) > 2
    del compiled
    framejit.reset()
    gc.collect()
    assert [each() for each in waiting] == [None] * len(waiting)
