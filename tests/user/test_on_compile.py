"""framejit.on_compile: who is told of compilations, and what."""

from __future__ import annotations

import gc
import logging
import weakref
from typing import Any

import pytest
import torch
import torch._dynamo.callback as of_torch
from torch import nn
from torch._functorch import config as functorch_config

import framejit
from framejit.process import underway

x = torch.arange(3.0)


class Listener:
    """Notes the compilations that begin and end."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.ended: list[Any] = []

    def start(self, compilation: Any) -> None:
        assert compilation.is_under_way and compilation.operations is None and compilation.stage == ("backend" if "pass" in compilation.why else "trace")
        self.events.append(("start", compilation.function.rpartition(".")[2], compilation.why))

    def end(self, compilation: Any) -> None:
        assert not compilation.is_under_way and compilation.seconds >= sum(compilation.stages.values()) * 0.99
        self.events.append(("end", compilation.function.rpartition(".")[2], compilation.why))
        self.ended.append((compilation.operations, compilation.uncompiled, type(compilation.error)))

    def listening(self) -> framejit.on_compile:
        return framejit.on_compile(start=self.start, end=self.end)


def test_first_calls_recompiles_and_breaks():
    def f(t):
        t = t + 1
        framejit.graph_break()
        return t * 2 - 1

    listener = Listener()
    fast = framejit.compile(f, backend="eager", dynamic=False)
    with listener.listening():
        fast(x)
        fast(x)
        fast(torch.ones(4))
    fast(torch.ones(5))
    whys = ["first call", "graph break", "recompile", "graph break"]
    assert listener.events == [(event, "f", why) for why in whys for event in ("start", "end")]
    assert listener.ended == [(1, "", type(None)), (2, "", type(None))] * 2


def test_what_a_compilation_says():
    class Model(nn.Module):
        def forward(self, t):
            return t.sin()

    seen = []
    handle = framejit.on_compile(end=seen.append)
    framejit.compile(Model(), backend="eager")(x)
    (compilation,) = seen
    code = Model.forward.__code__
    assert compilation.function.endswith("Model.forward") and (compilation.filename, compilation.lineno) == (code.co_filename, code.co_firstlineno)
    assert compilation.backend == "eager" and not compilation.beside and compilation.layer == ""
    assert {"trace", "backend", "guards"} <= set(compilation.stages)
    assert "Model.forward" in repr(compilation) and "first call" in repr(compilation)
    handle.remove()
    handle.remove()
    framejit.compile(lambda t: t + 1, backend="eager")(x)
    assert len(seen) == 1


def test_the_layer_that_is_traced():
    under_way: list[Any] = []
    layers = []

    @torch.compiler.assume_constant_result
    def note():
        layers.append(under_way[0].layer)
        return 1

    class Layer(nn.Module):
        def forward(self, t):
            return t + note()

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Layer(), Layer()])

        def forward(self, t):
            for layer in self.layers:
                t = layer(t)
            return t

    with framejit.on_compile(start=under_way.append):
        framejit.compile(Model(), backend="eager")(x)
    assert layers == ["self.layers[0]", "self.layers[1]"] and under_way[0].layer == ""


def test_what_runs_uncompiled_and_errors():
    def breaks(t):
        framejit.graph_break("here")
        return t

    listener = Listener()
    with listener.listening():
        framejit.compile(lambda t: (framejit.skip_frame("not this"), t + 1)[1], backend="eager")(x)
        with pytest.raises(framejit.Unsupported):
            framejit.compile(breaks, backend="eager", fullgraph=True)(x)
    assert [(uncompiled != "", error) for _, uncompiled, error in listener.ended] == [(True, type(None)), (False, framejit.Unsupported)]


def test_the_backward_pass():
    listener = Listener()
    with listener.listening(), functorch_config.patch(enable_autograd_cache=False):
        framejit.compile(nn.Linear(3, 3), backend="inductor")(x).sum().backward()
    assert listener.events == [(event, "forward", why) for why in ("first call", "backward pass") for event in ("start", "end")]


def test_a_callback_that_raises(caplog):
    def failing(compilation):
        raise ZeroDivisionError("in the callback")

    with caplog.at_level(logging.WARNING, "framejit"), framejit.on_compile(start=failing, end=failing):
        assert torch.equal(framejit.compile(lambda t: t + 1, backend="eager")(x), x + 1)
    assert [record.getMessage().partition("on_compile")[2] for record in caplog.records] == [
        f": the callback {failing.__qualname__} raised ZeroDivisionError: in the callback"
    ]


def test_a_callback_that_interrupts():
    def interrupt(compilation):
        raise KeyboardInterrupt

    fast = framejit.compile(lambda t: t + 1, backend="eager")
    for arguments in ({"start": interrupt}, {"end": interrupt}):
        with framejit.on_compile(**arguments), pytest.raises(KeyboardInterrupt):
            fast(x)
        assert underway.current() is None
    assert torch.equal(fast(x), x + 1)


def test_a_callback_that_calls_compiled_code():
    inner = framejit.compile(lambda t: t * 3, backend="eager")
    found = []
    with framejit.on_compile(end=lambda compilation: found.append(inner(x)) if len(found) < 2 else None):
        assert torch.equal(framejit.compile(lambda t: t + 1, backend="eager")(x), x + 1)
    assert found and all(torch.equal(each, x * 3) for each in found)


@pytest.mark.parametrize("arguments", [{}, {"start": None}, {"end": 3}, {"start": "f"}])
def test_wrong_arguments(arguments):
    with pytest.raises(framejit.BadArgument, match=r"on_compile\("):
        framejit.on_compile(**arguments)


def test_torchs_own_callbacks():
    events = []
    start = of_torch.on_compile_start(lambda args: events.append(("start", args.callback_trigger.name)))
    end = of_torch.on_compile_end(lambda args: events.append(("end", args.callback_trigger.name)))
    try:
        fast = framejit.compile(lambda t: t + 1, backend="eager")
        fast(x)
        fast(x)
    finally:
        of_torch.callback_handler.remove_start_callback(start)
        of_torch.callback_handler.remove_end_callback(end)
    assert events == [("start", "DYNAMO"), ("end", "DYNAMO")]


def test_a_compilation_that_is_kept_holds_nothing_of_the_call():
    class Holder:
        pass

    holder = Holder()
    gone = weakref.ref(holder)
    seen: list[Any] = []
    with framejit.on_compile(start=seen.append, end=seen.append):
        framejit.compile(lambda t, held: t + 1, backend="eager")(x, holder)
    del holder
    gc.collect()
    assert len(seen) == 2 and gone() is None
