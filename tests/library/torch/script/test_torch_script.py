"""Modules that torch.jit has compiled, inside compiled functions: calls, what is read of them, and what changes between calls."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import agree
from torch import nn

import framejit

BACKENDS = ("eager", "aot_eager")


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("shift", torch.ones(3))
        self.scale = 2.0
        self.sizes = [1, 2]

    def forward(self, x: torch.Tensor, times: int = 1) -> torch.Tensor:
        if x.dim() == 2 and self.training:
            x = self.norm(self.linear(x))
        return x * self.scale * times + self.shift * self.sizes[1]


class Outer(nn.Module):
    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(self.linear(x)).relu() * (2 if self.inner.training else 3)


def step(model: nn.Module, compiled: Any, x: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad()
    found = compiled(x)
    found.sum().backward()
    tensors = [found, *(parameter.grad for parameter in model.parameters() if parameter.grad is not None), *model.buffers()]
    return [tensor.detach().clone() for tensor in tensors]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("compile_inner", [torch.jit.script, lambda layer: torch.jit.trace(layer, torch.randn(2, 3))])
def test_modules_that_torch_has_compiled_train(backend, compile_inner):
    """Results, gradients and statistics are eager's; switching to eval, another parameter and other numbers are noticed."""
    torch.manual_seed(0)
    left = Outer(compile_inner(Layer()))
    right = Outer(compile_inner(Layer()))
    right.load_state_dict(left.state_dict())
    framejit.reset()
    compiled = framejit.compile(right, backend=backend, fullgraph=True)
    for change in (lambda m: None, lambda m: m.eval(), lambda m: m.train(), lambda m: setattr(m.inner, "shift", torch.full((3,), 5.0)), lambda m: None):
        change(left), change(right)
        x = torch.randn(4, 3)
        for expected, got in zip(step(left, left, x), step(right, compiled, x), strict=True):
            assert torch.allclose(expected, got, atol=1e-6)
    assert framejit.statistics()["graphs"] <= 5


def test_what_is_read_of_a_scripted_module_is_guarded():
    module = torch.jit.script(Layer())
    program = lambda x: (module(x, times=2), x * module.shift + module.linear.weight, module.scale, module.training, hasattr(module, "nothing"), module.sizes)
    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    x = torch.randn(4, 3)[:3]
    for change in (lambda: None, lambda: setattr(module, "scale", 5.0), lambda: module.eval(), lambda: module.shift.mul_(2)):
        change()
        expected, got = program(x), compiled(x)
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(expected[:2], got[:2])) and expected[2:] == got[2:]


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls


def test_a_scripted_module_that_changes_itself_runs_natively():
    module = torch.jit.script(Counts())
    framejit.reset()
    compiled = framejit.compile(lambda x: module(x.sin()) + 1, backend="eager")
    x = torch.ones(2)
    for calls in (1, 2, 3):
        assert torch.allclose(compiled(x), x.sin() * calls + 1)
    assert module.calls == 3 and framejit.statistics()["graph_breaks"] == 1


class Routes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            return x * 2
        return x - 1


def test_a_scripted_module_that_goes_by_its_data_runs_natively():
    module = torch.jit.script(Routes())
    for x in (torch.ones(2), -torch.ones(2)):
        agree(lambda x: module(x + 0.5) * 2, x, fullgraph=False)
