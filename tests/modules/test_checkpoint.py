"""torch.utils.checkpoint in compiled code: values, gradients, random streams and what is kept for the backward pass, against eager."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import framejit

BACKENDS = ("eager", "aot_eager")


class Block(nn.Module):
    """`ways`: how a part of it is called."""

    def __init__(self, ways: Callable[..., Any]) -> None:
        super().__init__()
        self.ways = ways
        self.into, self.out = nn.Linear(4, 16), nn.Linear(16, 4)
        self.drop, self.norm = nn.Dropout(0.5), nn.BatchNorm1d(4)
        self.seen: list[Any] = []

    def part(self, x: Any, scale: Any = 1) -> Any:
        return self.drop(self.out(torch.tanh(self.into(x)))) * scale + x

    def forward(self, x: Any) -> Any:
        return self.ways(self, x)


def plainly(m, x):
    return checkpoint(m.part, x, use_reentrant=False)


def twice(m, x):
    return checkpoint(m.part, plainly(m, x), use_reentrant=False)


def nested(m, x):
    return checkpoint(lambda y: m.part(checkpoint(m.part, y, use_reentrant=False)) * 2, x, use_reentrant=False)


def with_keywords(m, x):
    return checkpoint(m.part, x, scale=torch.full((4,), 3.0), use_reentrant=False, preserve_rng_state=True)


def with_several_results(m, x):
    a, b = checkpoint(lambda y: (m.part(y), y * 2), x, use_reentrant=False)
    return a + b


def of_a_sequence(m, x):
    return checkpoint_sequential(nn.Sequential(m.into, nn.Tanh(), m.out), 2, x, use_reentrant=False)


def that_gives_its_argument(m, x):
    y = x * 2
    return checkpoint(lambda z: z, y, use_reentrant=False) + y


def without_gradients(m, x):
    with torch.no_grad():
        y = plainly(m, x)
    return m.part(y)


def with_the_old_way(m, x):
    return checkpoint(m.part, x, use_reentrant=True)


def with_running_statistics(m, x):
    return checkpoint(lambda y: m.norm(m.part(y)), x, use_reentrant=False)


def that_is_seen(m, x):
    def part(y):
        m.seen.append("forward")
        return m.part(y)

    return checkpoint(part, x, use_reentrant=False)


def that_fills_a_list(m, x):
    filled = []

    def part(y):
        filled.append(m.into(y))
        return m.out(filled[-1])

    result = checkpoint(part, x, use_reentrant=False)
    m.seen.append(len(filled))
    return result + filled[0].sum()


def that_counts(m, x):
    count = 0

    def part(y):
        nonlocal count
        count += 1
        return m.part(y)

    result = checkpoint(part, x, use_reentrant=False)
    m.seen.append(lambda: count)
    return result


def that_breaks(m, x):
    def part(y):
        framejit.graph_break()
        return m.part(y)

    return checkpoint(part, x, use_reentrant=False)


def that_raises(m, x):
    def part(y):
        m.part(y)
        raise KeyError("inside")

    try:
        return checkpoint(part, x, use_reentrant=False)
    except KeyError:
        pass  # with torch 2.11, in here its hooks on saved tensors are still set
    return m.part(x)


def with_other_policies(m, x):
    return checkpoint(m.part, x, use_reentrant=False, determinism_check="none")


WHOLE = (plainly, twice, nested, with_keywords, with_several_results, of_a_sequence, without_gradients)
SPLIT = (
    that_gives_its_argument, with_the_old_way, with_running_statistics, that_is_seen, that_fills_a_list, that_counts,
    that_breaks, that_raises, with_other_policies,
)  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("ways", [*WHOLE, *SPLIT])
@pytest.mark.filterwarnings("ignore:None of the inputs")
def test_training(ways: Callable[..., Any], backend: str) -> None:
    told = []
    for compile in (lambda m: m, lambda m: framejit.compile(m, backend=backend)):
        framejit.reset()
        torch.manual_seed(0)
        block = Block(ways)
        call, seen = compile(block), []
        for _ in range(3):
            x = torch.randn(3, 4, requires_grad=True)
            block.zero_grad()
            loss = call(x).pow(2).sum()
            loss.backward()
            seen += [loss.detach(), x.grad, *[p.grad for p in block.parameters()], *[b.clone() for b in block.buffers()], torch.rand(2)]
        told.append((seen, [item() if callable(item) else item for item in block.seen]))
    for a, b in zip(told[0][0], told[1][0], strict=True):
        torch.testing.assert_close(b, a, rtol=0, atol=0)
    assert told[0][1] == told[1][1]
    if ways in WHOLE:
        assert framejit.statistics()["graphs"] == 1 and not framejit.statistics()["reasons"], framejit.statistics()


@pytest.mark.only_eager("AOTAutograd computes cheap things a second time by itself")
def test_less_is_kept_for_the_backward_pass() -> None:
    """Fewer of the larger tensors are saved for the backward pass."""

    def kept(fn: Callable[..., Any]) -> int:
        saved: list[torch.Tensor] = []
        x = torch.randn(8, 4, requires_grad=True)
        fn(x)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
            fn(x)
        return len({tensor.untyped_storage()._cdata: tensor for tensor in saved if tensor.numel() > 32})

    torch.manual_seed(0)
    block = Block(plainly)
    with_it = kept(framejit.compile(lambda x: plainly(block, x), backend="eager"))
    without = kept(framejit.compile(lambda x: block.part(x), backend="eager"))
    assert with_it < without


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_model_is_freed(backend: str) -> None:
    block = Block(plainly)
    compiled = framejit.compile(block, backend=backend)
    compiled(torch.randn(3, 4)).sum().backward()
    gone = weakref.ref(block)
    del block, compiled
    gc.collect()
    assert gone() is None
