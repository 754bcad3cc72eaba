"""The kernels that attention may choose from: `sdpa_kernel` and the switches of torch.backends.cuda, against eager."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from named import Programs
from streams import does_as_eager
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

import framejit

BACKENDS = ("eager", "aot_eager")
FLASH, MATH = "aten::_scaled_dot_product_flash_attention_for_cpu", "aten::_softmax"


def switches() -> list[bool]:
    return [getattr(torch.backends.cuda, f"{name}_sdp_enabled")() for name in ("flash", "math", "mem_efficient", "cudnn")]


@pytest.fixture(autouse=True)
def switches_stay() -> Iterator[None]:
    before = switches()
    yield
    found = switches()
    for name, value in zip(("flash", "math", "mem_efficient", "cudnn"), before):
        getattr(torch.backends.cuda, f"enable_{name}_sdp")(value)
    assert found == before


class State:
    def __init__(self) -> None:
        self.q = torch.randn(1, 2, 4, 8)
        self.w = torch.randn(8, 8, requires_grad=True)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)


PROGRAMS = Programs()
program = PROGRAMS.add


@program
def one_kernel(s):
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(s.q, s.q, s.q)


@program
def several_kernels(s):
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        return F.scaled_dot_product_attention(s.q, s.q, s.q, is_causal=True)


@program
def nested(s):
    with sdpa_kernel(SDPBackend.MATH):
        a = F.scaled_dot_product_attention(s.q, s.q, s.q)
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
            b = F.scaled_dot_product_attention(s.q, s.q, a)
        c = F.scaled_dot_product_attention(s.q, b, s.q)
    return a, b, c, F.scaled_dot_product_attention(c, s.q, s.q)


@program
def switched_by_hand(s):
    torch.backends.cuda.enable_flash_sdp(False)
    a = F.scaled_dot_product_attention(s.q, s.q, s.q)
    seen = switches()
    torch.backends.cuda.enable_flash_sdp(True)
    return a, seen, switches()


@program
def trained(s):
    s.w.grad = None
    with sdpa_kernel(SDPBackend.MATH):
        out = F.scaled_dot_product_attention(s.q @ s.w, s.q, s.q @ s.w)
    out.sum().backward()
    return out


@program
def of_a_module(s):
    x = s.q[0]
    with sdpa_kernel(SDPBackend.MATH):
        return s.attention(x, x, x, need_weights=False)[0]


@program
def left_by_an_exception(s):
    try:
        with sdpa_kernel(SDPBackend.MATH):
            raise ValueError
    except ValueError:
        return F.scaled_dot_product_attention(s.q, s.q, s.q), switches()


@sdpa_kernel(SDPBackend.MATH)
def decorated(q):
    return F.scaled_dot_product_attention(q, q, q)


@program
def by_a_decorator(s):
    return decorated(s.q)


@program
def with_dropout(s):
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(s.q, s.q, s.q, dropout_p=0.4)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_one_graph(name: str, backend: str) -> None:
    found = does_as_eager(State, PROGRAMS[name], backend, calls=2)
    assert (found["graphs"], found["graph_breaks"], found["recompiles"]) == (1, 0, 0), found["reasons"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_break_inside(backend: str) -> None:
    def fn(s):
        with sdpa_kernel(SDPBackend.MATH):
            a = F.scaled_dot_product_attention(s.q, s.q, s.q)
            print(end="")
            seen = switches()
            b = F.scaled_dot_product_attention(s.q, s.q, s.q)
        return a, b, seen, switches()

    assert does_as_eager(State, fn, backend)["graphs"] == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_switches_that_are_left_set(backend: str) -> None:
    def fn(s):
        torch.backends.cuda.enable_flash_sdp(not torch.backends.cuda.flash_sdp_enabled())
        return F.scaled_dot_product_attention(s.q, s.q, s.q), switches()

    assert does_as_eager(State, fn, backend, calls=4)["graphs"] == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_kernel_that_runs(backend: str) -> None:
    q = torch.randn(1, 2, 4, 8)

    def fn(q, *backends):
        with sdpa_kernel(list(backends)):
            return F.scaled_dot_product_attention(q, q, q)

    compiled = framejit.compile(fn, backend=backend)
    for chosen, runs in ((SDPBackend.MATH, MATH), (SDPBackend.FLASH_ATTENTION, FLASH), (SDPBackend.MATH, MATH)):
        compiled(q, chosen)
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            compiled(q, chosen)
        names = {event.key for event in seen.key_averages()}
        assert (FLASH in names) == (runs == FLASH) and (MATH in names) == (runs == MATH)


@pytest.mark.parametrize(
    "call", [lambda q, m: F.scaled_dot_product_attention(q, q, q), lambda q, m: m(q[0], q[0], q[0], need_weights=False)[0]]
)
def test_switches_around_the_call_are_guarded(call: Callable[..., Any]) -> None:
    framejit.reset()
    state = State()
    compiled = framejit.compile(call, backend="aot_eager")
    compiled(state.q, state.attention)
    with sdpa_kernel(SDPBackend.MATH):
        torch.testing.assert_close(compiled(state.q, state.attention), call(state.q, state.attention))
    compiled(state.q, state.attention)
    assert framejit.statistics()["graphs"] == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_kernels_in_an_order_of_preference(backend: str) -> None:
    def attended(q: torch.Tensor) -> Any:
        with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
            found = F.scaled_dot_product_attention(q, q, q)
            inside = torch._C._get_sdp_priority_order()
            framejit.graph_break()
            inside += torch._C._get_sdp_priority_order()
        return found.sum(), inside, torch._C._get_sdp_priority_order()

    q = torch.randn(1, 2, 4, 8)
    before = torch._C._get_sdp_priority_order()
    expected, found = attended(q), framejit.compile(attended, backend=backend)(q)
    assert torch.equal(expected[0], found[0]) and expected[1:] == found[1:] and found[2] == before
    assert torch._C._get_sdp_priority_order() == before
