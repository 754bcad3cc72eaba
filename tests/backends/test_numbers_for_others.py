"""Backends of others whose graphs may hold numbers out of tensors: those that say so, and all if the program wishes it of torch's tracer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import fx
from torch._dynamo.backends.common import aot_autograd

import framejit
from framejit.backends import registry


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_registered", {})
    framejit.reset()
    yield


def as_it_is(gm: fx.GraphModule, inputs: list[Any]) -> Any:
    return gm.forward


def by_autograd(gm: fx.GraphModule, inputs: list[Any]) -> Any:
    return aot_autograd(fw_compiler=as_it_is)(gm, inputs)


def sliced(x: torch.Tensor, n: torch.Tensor, mask: torch.Tensor) -> Any:
    count = n.item()
    return x * count + 1, x[mask] + 1


def run(compiled: Any) -> None:
    for count, mask in ((3, [True, False, True]), (5, [True, True, True]), (0, [False, False, False])):
        args = torch.arange(3.0), torch.tensor(count), torch.tensor(mask)
        for expected, found in zip(sliced(*args), compiled(*args)):
            assert torch.equal(expected, found)


@pytest.mark.parametrize("backend", [as_it_is, by_autograd], ids=["eager", "autograd"])
def test_a_backend_says_what_its_graphs_may_hold(backend: Any) -> None:
    framejit.register_backend(backend, "careful")
    run(framejit.compile(sliced, backend="careful"))
    assert framejit.statistics()["graph_breaks"] > 0
    framejit.reset()
    framejit.register_backend(backend, "able", takes_unbacked=True)
    run(framejit.compile(sliced, backend="able", fullgraph=True))
    assert framejit.statistics()["graphs"] == 1


def test_torchs_setting_is_read_when_a_function_is_traced() -> None:
    compiled = framejit.compile(sliced, backend=as_it_is)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        run(compiled)
    found = framejit.statistics()
    assert (found["graphs"], found["graph_breaks"]) == (1, 0)


def test_the_decorator_passes_it_on() -> None:
    @framejit.register_backend(name="decorated", takes_unbacked=True)
    def backend(gm: fx.GraphModule, inputs: list[Any]) -> Any:
        return gm.forward

    assert registry.lookup("decorated").abilities().takes_unbacked
    assert not registry.lookup(as_it_is).abilities().takes_unbacked
