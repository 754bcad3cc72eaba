"""Dicts that are gone through by place: modules that differ in the numbers of their hooks' handles share what is compiled."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import framejit


@pytest.fixture(autouse=True)
def counting() -> None:
    framejit.reset()


def doubled(module: nn.Module, args: Any) -> Any:
    return (args[0] * 2,)


def shifted(module: nn.Module, args: Any, result: Any) -> Any:
    return result + 1


def halved(module: nn.Module, args: Any, result: Any) -> Any:
    return result / 2


def layer(*hooks: Any, prepend: bool = False) -> nn.Module:
    made = nn.Linear(3, 3)
    made.register_forward_pre_hook(doubled)
    for hook in hooks:
        made.register_forward_hook(hook, prepend=prepend)
    return made


def agrees(compiled: Any, module: nn.Module) -> None:
    x = torch.randn(2, 3)
    torch.testing.assert_close(compiled(module, x), module(x))


def test_layers_with_hooks_share_one_graph() -> None:
    compiled = framejit.compile(lambda module, x: module(x), backend="eager")
    for _ in range(4):
        agrees(compiled, layer(shifted, halved))
    assert framejit.statistics()["graphs"] == 1


def test_order_number_and_hooks_are_guarded() -> None:
    compiled = framejit.compile(lambda module, x: module(x), backend="eager")
    agrees(compiled, layer(shifted, halved))
    for other in (layer(shifted, halved, prepend=True), layer(halved, shifted), layer(shifted), layer(shifted, halved, shifted)):
        agrees(compiled, other)
        agrees(compiled, layer(shifted, halved))
    assert framejit.statistics()["graphs"] == 5


def test_hooks_that_are_called_otherwise() -> None:
    def named(module: nn.Module, args: Any, kwargs: Any, result: Any) -> Any:
        return result * kwargs["factor"]

    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor, factor: int) -> torch.Tensor:
            return x + factor

    def f(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return module(x, factor=3)

    compiled = framejit.compile(f, backend="eager")
    x = torch.randn(3)
    for with_kwargs in (True, False, True):
        module = Scaled()
        module.register_forward_hook(shifted)
        module.register_forward_hook(named if with_kwargs else halved, with_kwargs=with_kwargs, always_call=with_kwargs)
        torch.testing.assert_close(compiled(module, x), f(module, x))


def test_hooks_that_come_and_go_in_compiled_code() -> None:
    def f(module: nn.Module, x: torch.Tensor) -> Any:
        first = module(x)
        handle = module.register_forward_hook(halved)
        second = module(x)
        handle.remove()
        return first, second, module(x), len(module._forward_hooks), [hook for hook in module._forward_hooks.values()]

    compiled = framejit.compile(f, backend="eager")
    for _ in range(3):
        module = layer(shifted)
        x = torch.randn(2, 3)
        expected, found = f(module, x), compiled(module, x)
        torch.testing.assert_close(found[:3], expected[:3])
        assert found[3:] == expected[3:] and list(module._forward_hooks.values()) == [shifted]
