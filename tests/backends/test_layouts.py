"""The layout of convolutions in Inductor's code for a CPU: channels come last only where activations are larger than weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._inductor import config
from torch.fx.experimental.proxy_tensor import make_fx

import framejit
from framejit.backends import inductor_compile as inductor
from framejit.backends.layouts import weights_outweigh


def graph_of(function, *args):
    return make_fx(function, tracing_mode="symbolic")(*args).graph


@pytest.mark.parametrize("channels, size, outweigh", [(64, 4, True), (4, 64, False), (64, 64, False)])
def test_weights_are_weighed_against_activations(channels: int, size: int, outweigh: bool) -> None:
    x, weight = torch.randn(1, channels, size, size), torch.randn(channels, channels, 3, 3)
    assert weights_outweigh(graph_of(lambda x, weight: torch.conv2d(x, weight, padding=1).relu(), x, weight)) == outweigh


def test_constants_and_graphs_without_convolutions_dont_count() -> None:
    weight = torch.randn(64, 64, 3, 3)
    constant = torch.fx.symbolic_trace(nn.Conv2d(64, 64, 3)).graph
    assert not weights_outweigh(constant) and not weights_outweigh(graph_of(lambda x, w: x @ w, torch.ones(2, 2), torch.ones(2, 2)))
    assert not weights_outweigh(make_fx(lambda x: torch.conv2d(x, weight), tracing_mode="fake", _allow_non_fake_inputs=True)(torch.randn(1, 64, 4, 4)).graph)


@pytest.mark.parametrize("size, channels_last", [(4, False), (64, True)])
def test_inductor_compiles_accordingly(size: int, channels_last: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    compile_fx_inner = inductor.compile_fx_inner

    def watched(*args, **kwargs):
        found.append(config.layout_optimization)
        return compile_fx_inner(*args, **kwargs)

    monkeypatch.setattr(inductor, "compile_fx_inner", watched)
    framejit.reset()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU())
    x = torch.randn(2, 16, size, size)
    with torch.no_grad(), config.patch(force_disable_caches=True):
        torch.testing.assert_close(framejit.compile(model, backend="inductor")(x), model(x))
    assert found == [channels_last]
