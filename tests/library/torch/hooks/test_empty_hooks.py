"""Modules without hooks are told by one guard each: hooks that come, go, or are shared between modules are noticed, before, in and between calls."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import nn

import framejit

x = torch.arange(6.0).reshape(2, 3)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.linear(x) + x).sin().cos()


def blocks(count: int = 3) -> nn.ModuleList:
    torch.manual_seed(0)
    return nn.ModuleList([Block() for _ in range(count)])


def doubled(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    return output * 2


def agrees(compiled: Any, eager: Any) -> None:
    torch.testing.assert_close(compiled(x), eager(x), rtol=0, atol=0)


def guards_of(compiled: Any) -> list[str]:
    return [guard for entry in framejit.explain(compiled)(x).entries for guard in entry.guards]


def test_a_module_without_hooks_has_one_guard_for_them() -> None:
    layer = nn.Linear(3, 3)
    about = [guard for guard in guards_of(lambda t: layer(t)) if "_hooks" in guard.split("  #")[0] and "layer" in guard.split("  #")[0]]
    assert len(about) == 1 and about[0].startswith("items_empty      layer.__dict__ has nothing in _backward_hooks, "), about


@pytest.mark.parametrize("kind", ["forward_hook", "forward_pre_hook", "full_backward_hook", "full_backward_pre_hook"])
def test_hooks_that_come_and_go(kind: str) -> None:
    layers, calls, before = blocks(), [], framejit.statistics()["recompiles"]
    run = framejit.compile(lambda t: layers[2](layers[1](layers[0](t))), backend="eager")
    agrees(run, lambda t: layers[2](layers[1](layers[0](t))))
    handle = getattr(layers[1].linear, f"register_{kind}")(lambda *args: calls.append(kind))
    run(x).sum().backward()
    assert calls == [kind]
    handle.remove()
    run(x).sum().backward()
    assert calls == [kind]
    assert framejit.statistics()["recompiles"] - before == 1


def test_hooks_that_the_call_adds_and_removes() -> None:
    layers = blocks()

    def f(t: torch.Tensor) -> Any:
        t = layers[0](t)
        handle = layers[0].register_forward_hook(doubled)
        t = layers[0](t)
        handle.remove()
        return layers[1](layers[0](t))

    run = framejit.compile(f, backend="eager")
    for _ in range(3):
        agrees(run, f)
    assert all(len(layer._forward_hooks) == 0 for layer in layers)


@pytest.mark.parametrize("shared", [0, 3])
def test_hooks_that_two_modules_share_when_the_call_adds_one(shared: int) -> None:
    """The trace has met the dict by the other module's path: a layer that uses it has a hook, though the layers before it had none. The last layers are copied
    from the one before."""
    layers, spare = blocks(5), Block()
    layers[shared]._forward_hooks = spare._forward_hooks

    def f(t: torch.Tensor) -> Any:
        spare._forward_hooks[7] = doubled
        for layer in layers:
            t = layer(t)
        del spare._forward_hooks[7]
        return t

    run = framejit.compile(f, backend="eager")
    for _ in range(2):
        agrees(run, f)


def test_hooks_that_modules_come_to_share() -> None:
    layers, spare = blocks(), Block()

    def f(t: torch.Tensor) -> Any:
        t = layers[1](layers[0](t))
        handle = spare.register_forward_hook(doubled)
        t = layers[1](layers[0](t))
        handle.remove()
        return t

    run = framejit.compile(f, backend="eager")
    agrees(run, f)
    layers[0]._forward_hooks = spare._forward_hooks  # as empty as its own
    agrees(run, f)
    layers[0]._forward_hooks = OrderedDict()
    agrees(run, f)
    layers[1]._forward_hooks = spare._forward_hooks
    agrees(run, f)


def test_hooks_in_another_kind_of_dict() -> None:
    layer = Block()
    layer._forward_hooks = {}  # type: ignore[assignment]
    run = framejit.compile(lambda t: layer(t), backend="eager")
    agrees(run, layer)
    layer._forward_hooks[0] = doubled
    agrees(run, layer)


def test_hooks_that_change_from_call_to_call() -> None:
    layer = Block()
    run = framejit.compile(lambda t: layer(t), backend="eager")
    for _ in range(12):
        agrees(run, layer)
        layer.register_forward_hook(doubled)
