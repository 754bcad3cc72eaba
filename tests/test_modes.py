"""torch's modes that a compiled function enters and leaves: what they do inside, and what is in force afterwards."""

from __future__ import annotations

import pytest
import torch
from agreement import agree
from torch import nn

import framejit

x = torch.arange(6.0).reshape(2, 3)
weight = nn.Parameter(torch.ones(3))


def state():
    return (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"),
            torch.is_autocast_cache_enabled())  # fmt: skip


def no_grad_around_everything(t):
    with torch.no_grad():
        return t * weight


def no_grad_to_the_end(t):
    with torch.no_grad():
        t = t * weight
    return t


def no_grad_in_between(t):
    a = t * weight
    with torch.no_grad():
        b = a * weight
    return a, b, b * weight


def no_grad_twice(t):
    with torch.no_grad():
        a = t * weight
    with torch.no_grad():
        b = a + weight
    return a, b


def nested(t):
    with torch.no_grad():
        a = t * weight
        with torch.enable_grad():
            b = t * weight
        c = t * weight
    return a, b, c


def an_exception_on_the_way(t):
    try:
        with torch.no_grad():
            t = t * weight
            raise ValueError
    except ValueError:
        return t * weight, t, torch.is_grad_enabled()


def a_return_from_inside(t):
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        if t.shape[0] == 2:
            return t @ t.t()
    return t


@torch.no_grad()
def decorated(t):
    return t * weight


def calls_decorated(t):
    return decorated(t) + weight * 2, decorated(t)


def inference(t):
    with torch.inference_mode():
        a = t * 2
    return t * weight


def autocast_around_everything(t):
    with torch.autocast("cpu", torch.bfloat16):
        return t @ t.t()


def autocast_off_inside_on(t):
    with torch.autocast("cpu", torch.bfloat16):
        a = t @ t.t()
        with torch.autocast("cpu", enabled=False):
            b = t @ t.t()
        return a, b, t @ t.t()


def set_grad_enabled_as_a_function(t):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    a = t * weight
    torch.set_grad_enabled(before)
    return a, t * weight


def set_grad_enabled_with_a_flag(t):
    with torch.set_grad_enabled(t.shape[0] == 3):
        return t * weight


def nothing_computed(t):
    with torch.no_grad():
        pass
    return t


def leaves_grad_mode_off(t):
    torch.set_grad_enabled(False)
    return t * weight


def leaves_it_off_and_computes_nothing(t):
    torch.set_grad_enabled(False)
    return t


PROGRAMS = [
    no_grad_around_everything, no_grad_to_the_end, no_grad_in_between, no_grad_twice, nested, an_exception_on_the_way, a_return_from_inside,
    decorated, calls_decorated, inference, autocast_around_everything, autocast_off_inside_on, set_grad_enabled_as_a_function,
    set_grad_enabled_with_a_flag, nothing_computed,
]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_modes_are_as_before(program, backend):
    before = state()
    agree(program, x, backend=backend)
    assert state() == before
    with torch.no_grad():
        agree(program, x, backend=backend)
        assert not torch.is_grad_enabled()
    assert state() == before
    with torch.autocast("cpu", torch.bfloat16):
        inside = state()
        agree(program, x, backend=backend)
        assert state() == inside
    assert state() == before


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [leaves_grad_mode_off, leaves_it_off_and_computes_nothing], ids=lambda p: p.__name__)
def test_modes_that_are_left_changed(program, backend):
    def observed(t):
        return program(t), torch.is_grad_enabled()

    try:
        for _ in range(2):
            torch.set_grad_enabled(True)
            compiled = agree(observed, x, backend=backend, calls=1)
            torch.set_grad_enabled(True)
            compiled(x)
            assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def fails_inside_no_grad(t, index):
    with torch.no_grad():
        return (t * weight)[index]


def fails_inside_autocast(t, index):
    with torch.autocast("cpu", torch.bfloat16):
        return (t @ t.t())[index]


def fails_inside_inference_mode(t, index):
    with torch.inference_mode():
        return (t * 2)[index]


def fails_inside_all(t, index):
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), torch.autocast("cpu", torch.float16), torch.enable_grad():
        return (t @ t.t())[index]


def nesting():
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", lambda gm, inputs: gm], ids=["eager", "aot_eager", "a function"])
@pytest.mark.parametrize(
    "program", [fails_inside_no_grad, fails_inside_autocast, fails_inside_inference_mode, fails_inside_all], ids=lambda p: p.__name__
)
def test_modes_after_an_error_inside_the_graph(program, backend):
    compiled = framejit.compile(program, backend=backend, fullgraph=True)
    good, bad = torch.tensor([0]), torch.tensor([9])
    expected = program(x, good)
    before = state(), nesting()
    for _ in range(2):
        assert torch.equal(compiled(x, good), expected)
        try:
            compiled(x, bad)
        except IndexError:
            assert (state(), nesting()) == before, "while the error is being handled"
        else:
            raise AssertionError("no error")
        assert (state(), nesting()) == before
