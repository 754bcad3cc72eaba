"""Steps of CUDA graphs: each outermost call of a function whose backend records them begins one, and no other call does."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._dynamo.mutation_guard import GenerationTracker

import framejit
from framejit.backends.registry import Backend

x = torch.arange(6.0).reshape(2, 3)


class Recording(Backend):
    """A backend that says that it records CUDA graphs, and runs the graph as it is."""

    def cudagraphs(self):
        return True


def run_graph(gm, example_inputs):
    return gm


@pytest.fixture
def steps():
    """A function that tells how many steps have begun since it was last asked."""
    known = GenerationTracker.generation

    def since_last():
        nonlocal known
        begun, known = GenerationTracker.generation - known, GenerationTracker.generation
        return begun

    return since_last


def recording(function, **options):
    return framejit.compile(function, backend=Recording("recording", run_graph), **options)


def test_each_call_begins_a_step(steps):
    f = recording(lambda t: t + 1)
    for t in (x, x, x.double()):
        assert torch.equal(f(t), t + 1) and steps() == 1


def test_modules_and_methods_begin_a_step(steps):
    class Scaled(nn.Module):
        def forward(self, t):
            return t * 2

        @recording
        def method(self, t):
            return t * 3

    module = recording(Scaled())
    for _ in range(2):
        assert torch.equal(module(x), x * 2) and steps() == 1
        assert torch.equal(module.method(x), x * 3) and steps() == 1


def test_the_pieces_of_a_split_call_are_one_step(steps):
    @recording
    def f(t):
        for i in range(3):
            t = t + i
            framejit.graph_break()
        return t * 2

    for _ in range(3):
        assert torch.equal(f(x), (x + 3) * 2) and steps() == 1
    assert framejit.statistics()["graph_breaks"]


def test_calls_inside_a_call_are_of_its_step(steps):
    inner = recording(lambda t: t * 2)

    @framejit.disable(recursive=False)
    def native(t):
        return inner(inner(t))

    @recording
    def outer(t):
        return sorted([native(t + 1), native(t)], key=lambda s: s.sum().item())[1] + 1

    for _ in range(3):
        assert torch.equal(outer(x), (x + 1) * 4 + 1) and steps() == 1
    assert torch.equal(native(x), x * 4) and steps() == 2


def test_a_call_that_raises_ends(steps):
    @recording
    def f(t):
        framejit.graph_break()
        raise ValueError(t.sum().item())

    for _ in range(2):
        with pytest.raises(ValueError):
            f(x)
        assert steps() == 1


def test_an_inner_call_under_another_backend_begins_a_step(steps):
    inner = recording(lambda t: t * 2)

    @framejit.disable(recursive=False)
    def native(t):
        return inner(t)

    outer = framejit.compile(lambda t: native(t) + native(t + 1), backend="eager")
    for _ in range(2):
        assert torch.equal(outer(x), x * 4 + 2) and steps() == 2


def test_calls_that_run_as_written_begin_none(steps):
    f = recording(lambda t: t + 1)
    with framejit.set_stance("force_eager"):
        assert torch.equal(f(x), x + 1) and steps() == 0


def test_other_backends_begin_none(steps):
    f = framejit.compile(lambda t: t + 1, backend=run_graph)
    assert torch.equal(f(x), x + 1) and steps() == 0


@pytest.mark.parametrize("training", [False, True])
def test_mode_reduce_overhead_begins_steps(steps, training):
    """On a CPU Inductor records nothing, and what it compiled is right just the same."""
    f = framejit.compile(lambda t: (t * 2).relu(), backend="inductor", mode="reduce-overhead")
    t = x.clone().requires_grad_(training)
    for _ in range(2):
        y = f(t)
        assert torch.equal(y, (t * 2).relu()) and steps() == 1
    if training:
        y.sum().backward()
        assert torch.equal(t.grad, (x > 0) * 2.0) and steps() == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="records CUDA graphs")
@pytest.mark.parametrize("split", [False, True])
def test_one_entry_has_a_recording_for_each_size(split):
    weight = torch.randn(3, 5, device="cuda")

    def program(t):
        y = (t @ weight).relu()
        if split:
            framejit.graph_break()
        return y.softmax(-1) * t.shape[0]

    f = framejit.compile(program, backend="inductor", mode="reduce-overhead", dynamic=True)
    with torch.no_grad():
        for size in (4, 7, 12) * 4:
            t = torch.randn(size, 3, device="cuda")
            torch.testing.assert_close(f(t), program(t))
    assert framejit.statistics()["graphs"] == 1 + split and not framejit.statistics()["recompiles"]
