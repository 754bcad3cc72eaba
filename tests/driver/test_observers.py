"""The program's modes, hooks, profilers and tracers: they see its operations, and nothing of framejit's work."""

from __future__ import annotations

import collections
import contextlib
import functools
import random
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from agreement import Comparison, outcome
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import framejit

x = torch.arange(6.0).reshape(2, 3)
EAGER_ITSELF = pytest.param("eager", marks=pytest.mark.only_eager("the test has aot_eager as another parameter, of which it expects something else"))
BACKENDS = pytest.mark.parametrize("backend", [EAGER_ITSELF, "aot_eager"])


class Operators(TorchDispatchMode):
    """Notes each operator that it sees, in order."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):
    """Notes each of torch's functions that it sees, in order."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "program, argument",
    [
        (lambda a: torch.from_numpy(a) + 1, np.ones(3)),
        (lambda a: np.multiply(a, 2), np.ones(3)),
        (lambda s: s._values() + 1, torch.eye(3).to_sparse()),
        (lambda s: s.crow_indices() + 1, torch.eye(3).to_sparse_csr()),
    ],
)
def test_a_mode_sees_no_operators_of_guards(program, argument):
    compiled = framejit.compile(program, backend="eager")
    expected = program(argument)
    Comparison().same(expected, compiled(argument), "before")
    with Operators() as of_program:
        program(argument)
    with Operators() as of_compiled:
        result = compiled(argument)
    Comparison().same(expected, result, "under the mode")
    assert of_compiled.seen == of_program.seen
    before = framejit.statistics()["frames"]
    compiled(argument)
    assert framejit.statistics()["frames"] == before


class Widening(TorchDispatchMode):
    """Answers with another type than the operator."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result.to(torch.float64) if isinstance(result, torch.Tensor) else result


class Growing(TorchDispatchMode):
    """Answers with another shape, that depends on how much it has seen."""

    def __init__(self):
        super().__init__()
        self.n = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.n += 1
        result = func(*args, **(kwargs or {}))
        return result + self.n if isinstance(result, torch.Tensor) else result


def product(t):
    return t @ t.t()


def operator_without_use(t):
    t.exp()
    return torch.relu(t) + 1


def with_a_break(t):
    t = t * 2
    framejit.graph_break()
    return t.sin() + t.shape[0]


def in_no_grad(t):
    with torch.no_grad():
        t = t * 2
    return t.cos()


def looks_at_the_type(t):
    t = t + 1
    return t * (2 if t.dtype is torch.float32 else 3)


def a_new_tensor(t):
    return torch.ones(3) + t, torch.tensor([1.0])


PROGRAMS = [product, operator_without_use, with_a_break, in_no_grad, looks_at_the_type, a_new_tensor]
MODES = [Operators, Functions, Widening, Growing, functools.partial(FlopCounterMode, display=False)]


def seen(mode):
    return mode.get_total_flops() if isinstance(mode, FlopCounterMode) else getattr(mode, "seen", getattr(mode, "n", None))


@pytest.mark.parametrize("before", [0, 1], ids=["first call", "compiled before"])
@pytest.mark.parametrize("mode", MODES, ids=["operators", "functions", "widening", "growing", "flops"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_mode_sees_what_it_sees_in_eager(program, mode, before):
    runs = []
    for fn in (program, framejit.compile(program, backend="eager")):
        found = [fn(x) for _ in range(before)]
        for _ in range(3):
            with mode() as active:
                result = outcome(fn, (x,), {})
            found.append((result, seen(active)))
        active = mode()
        with active, Operators() as inner:
            found.append(outcome(fn, (x,), {}))
        found.append((seen(active), inner.seen, fn(x)))
        runs.append(found)
    Comparison().same(*runs)


@BACKENDS
def test_calls_outside_of_a_mode_are_compiled_as_ever(backend):
    fn = framejit.compile(product, backend=backend)
    with Operators():
        fn(x)
    before = framejit.statistics()["graphs"]
    fn(x)
    assert framejit.statistics()["graphs"] == before + 1
    for _ in range(20):  # new modes: neither compiled nor counted again
        with Operators(), Functions():
            fn(x)
        fn(x)
    after = framejit.statistics()
    assert after["graphs"] == before + 1


def test_with_fullgraph_a_mode_is_an_error():
    fn = framejit.compile(product, backend="eager", fullgraph=True)
    fn(x)
    with Operators(), pytest.raises(framejit.Unsupported, match="FJ038"):
        fn(x)
    with Functions() as mode:
        fn(x)
    assert mode.seen == ["t", "matmul"]
    fn(x)


def test_a_module_under_a_mode():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    runs = []
    for fn in (model, framejit.compile(model, backend="aot_eager")):
        flops = []
        for _ in range(2):
            with FlopCounterMode(display=False) as counter:
                fn(x).sum().backward()
            flops.append(counter.get_total_flops())
        runs.append((flops, fn(x)))
    assert runs[0][0] == runs[1][0] and runs[0][0][0] > 0
    assert runs[0][1].equal(runs[1][1])


def test_a_mode_that_the_program_enters_inside():
    def program(t):
        t = t + 1
        with FlopCounterMode(display=False) as counter:
            t = t @ t.t()
        flops = counter.get_total_flops()
        with Operators() as log:
            t = t * 2
        with Functions() as names:
            t = torch.relu(t)
        return t + 1, flops, log.seen, [name for name in names.seen if name == "relu"]

    compiled = framejit.compile(program, backend="eager")
    for _ in range(3):
        Comparison().same(program(x), compiled(x))


def test_fake_tensors_of_the_programs_own():
    compiled = framejit.compile(product, backend="eager")
    compiled(x)
    with FakeTensorMode() as mode:
        for _ in range(2):
            result = compiled(torch.empty(2, 3))
            assert isinstance(result, FakeTensor) and result.fake_mode is mode and result.shape == (2, 2)
    assert compiled(x).equal(product(x))


def test_a_default_device_is_no_observer():
    def program(t):
        return torch.ones(3), t + 1

    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    compiled(x)
    with torch.device("meta"):
        assert compiled(x)[0].device.type == "meta"
    assert compiled(x)[0].device.type == "cpu"


# Tracers.


def asks_whether_it_is_traced(t):
    return t * 2 + (1 if torch.jit.is_tracing() else 0)


@BACKENDS
@pytest.mark.parametrize("before", [False, True], ids=["first call", "compiled before"])
@pytest.mark.parametrize("program", [product, with_a_break, in_no_grad, asks_whether_it_is_traced], ids=lambda program: program.__name__)
def test_tracers_over_compiled_functions_trace_the_program(program, before, backend):
    def graph_of(tracer, fn):
        if before:
            fn(x)
        return tracer(lambda t: fn(t) + 1)

    tracers = {
        "jit.trace": lambda fn: torch.jit.trace(fn, x),
        "make_fx": lambda fn: make_fx(fn)(x),
        "make_fx fake": lambda fn: make_fx(fn, tracing_mode="fake")(x),
        "make_fx symbolic": lambda fn: make_fx(fn, tracing_mode="symbolic")(x),
    }
    for name, tracer in tracers.items():
        expected = graph_of(tracer, program)
        got = graph_of(tracer, framejit.compile(program, backend=backend))
        if "fx" in name:
            assert [(n.op, str(n.target)) for n in expected.graph.nodes] == [(n.op, str(n.target)) for n in got.graph.nodes]
        else:
            assert [n.kind() for n in expected.graph.nodes()] == [n.kind() for n in got.graph.nodes()]
        assert expected(x + 1).equal(got(x + 1)), name


def test_symbolic_trace_over_compiled_functions_and_modules():
    def program(t):
        return torch.relu(t) * 2

    compiled = framejit.compile(program, backend="eager")
    for _ in range(2):
        traced = torch.fx.symbolic_trace(lambda t: compiled(t) + 1)
        assert traced(x).equal(program(x) + 1)
        assert [node.target for node in traced.graph.nodes if node.op == "call_function"][:1] == [torch.relu]
        compiled(x)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    fast = framejit.compile(model, backend="eager")
    for _ in range(2):
        assert torch.fx.symbolic_trace(fast)(x).equal(model(x))
        assert torch.jit.trace(fast, x)(x).equal(model(x))
        fast(x)


@torch.jit.script
def scripted(t):
    return t * 2 if bool(t.sum() > 0) else t


def test_scripted_functions_inside():
    def program(t):
        return scripted(t + 1) * 3, torch.jit.is_tracing(), torch.jit.is_scripting()

    compiled = framejit.compile(program, backend="eager")
    for t in (x, -x - 2, x):
        Comparison().same(program(t), compiled(t))


def test_tracing_inside_a_compiled_function():
    def program(t):
        traced = torch.jit.trace(lambda u: u * 2, t)
        return traced(t) + 1, make_fx(torch.relu)(t)(t)

    compiled = framejit.compile(program, backend="eager")
    for _ in range(2):
        Comparison().same(program(x), compiled(x))


# Hooks, profilers, warnings, generators.


@BACKENDS
@pytest.mark.parametrize("before", [False, True], ids=["first call", "compiled before"])
def test_hooks_on_saved_tensors_see_data_only(before, backend):
    def program(t):
        return (t.sin() * t.exp()).sum()

    runs = []
    for fn in (program, framejit.compile(program, backend=backend)):
        if before:
            fn(x.clone().requires_grad_())
        log = []
        packed = collections.Counter()

        def pack(t, log=log, packed=packed):
            packed["pack"] += 1
            log.append(isinstance(t, FakeTensor))
            return t

        def unpack(t, packed=packed):
            packed["unpack"] += 1
            return t

        leaf = x.clone().requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            fn(leaf).backward()
        runs.append((leaf.grad, packed["pack"] == packed["unpack"] > 0, any(log), packed if backend == "eager" else None))
    Comparison().same(*runs)


@BACKENDS
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_around_compiled_functions(reentrant, backend):
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Dropout(0.5), nn.Sigmoid())
    grads = []
    for fn in (model, framejit.compile(model, backend=backend)):
        for _ in range(2):
            torch.manual_seed(0)
            model.zero_grad()
            leaf = x.clone().requires_grad_()
            checkpoint(fn, leaf, use_reentrant=reentrant).sum().backward()
            grads.append([leaf.grad, *[p.grad.clone() for p in model.parameters()]])
    for later in grads[1:]:
        Comparison().same(grads[0], later)


@BACKENDS
def test_hooks_that_store_elsewhere(backend):
    def program(t):
        return (t.sin() * t.exp()).sum()

    grads = []
    for fn in (program, framejit.compile(program, backend=backend)):
        leaf = x.clone().requires_grad_()
        with torch.autograd.graph.save_on_cpu():
            fn(leaf).backward()
        grads.append(leaf.grad)
    Comparison().same(*grads)


@pytest.mark.only_eager("AOTAutograd's first run of a graph is under a mode of its own (_AnalyzeCustomOpInputOutputMode): a profiler sees operators twice")
def test_a_profiler_sees_each_operator_once():
    def program(t):
        return torch.mm(t, t.t()).tanh()

    compiled = framejit.compile(program, backend="eager")
    for _ in range(2):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            compiled(x)
        counts = collections.Counter(event.name for event in profile.events())
        assert counts["aten::mm"] == 1 and counts["aten::tanh"] == 1, counts
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        program(x)  # it still sees what comes behind
    assert collections.Counter(event.name for event in profile.events())["aten::mm"] == 1


@BACKENDS
@pytest.mark.parametrize(
    "program",
    [
        lambda t: t[None].T,
        lambda t: torch.nn.functional.softmax(t) + 1,
        lambda t: torch.nn.functional.mse_loss(t, t[:1]),
        lambda t: torch.range(0, 3) + t.sum(),
        lambda t: torch.nn.functional.kl_div(t.softmax(-1).log(), t.softmax(-1)),
    ],
    ids=["T", "softmax", "mse_loss", "range", "kl_div"],
)
def test_operators_warn_as_often_as_in_eager(program, backend):
    runs = []
    torch.set_warn_always(True)
    try:
        for fn in (program, framejit.compile(program, backend=backend)):
            found = []
            for _ in range(2):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    fn(x)
                found.append(sorted((w.category.__name__, str(w.message).partition(" (Triggered")[0]) for w in caught))
            runs.append(found)
    finally:
        torch.set_warn_always(False)
    if backend == "eager":
        assert runs[0] == runs[1]
    else:
        assert set(runs[1][0]) <= set(runs[0][0])  # AOTAutograd runs the operators several times while it compiles
    assert runs[0][0]


@pytest.mark.slow
def test_what_is_said_once_is_said_to_the_program():
    """TORCH_WARN_ONCE: in a fresh process, as it says it only once."""
    program = """
import warnings, torch, sys, framejit
t = torch.rand(1, 4)
f = (lambda t: t[None].T) if sys.argv[1] == "eager" else framejit.compile(lambda t: t[None].T, backend="eager")
for _ in range(2):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f(t)
    print(len(caught))
"""
    assert run_both(program) == "1\n0\n"


def run_both(program: str) -> str:
    """Run a program with the argument `eager` and with `compiled`; return the output, which must be the same."""
    outputs = [subprocess.run([sys.executable, "-c", program, how], capture_output=True, text=True, check=True).stdout for how in ("eager", "compiled")]
    assert outputs[0] == outputs[1]
    return outputs[0]


@pytest.mark.parametrize("backend", [EAGER_ITSELF, "aot_eager", "inductor"])
def test_generators_are_where_they_were(backend):
    def program(t):
        return t * 2 + t.sin()

    def states():
        return torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2]

    torch.manual_seed(0)
    before = states()
    framejit.compile(program, backend=backend)(x.clone().requires_grad_()).sum().backward()
    Comparison().same(before, states())


def nan_in_backward(t):
    return (t * 0).sqrt() * 0


def nan_found_inside(t):
    y = t * 2
    with torch.autograd.detect_anomaly():
        nan_in_backward(y).sum().backward()
    return y


@BACKENDS
@pytest.mark.parametrize("program", [nan_in_backward, nan_found_inside])
def test_anomaly_mode_names_the_operator_and_the_line(program, backend):
    """Around the call, and entered inside."""

    def told(fn):
        leaf = x.clone().requires_grad_()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            around = torch.autograd.detect_anomaly() if program is nan_in_backward else contextlib.nullcontext()
            with pytest.raises(RuntimeError) as error, around:
                fn(leaf).sum().backward()
        said = [str(warning.message) for warning in caught]
        return str(error.value), len(said), ["return (t * 0).sqrt() * 0" in text for text in said], torch.is_anomaly_enabled()

    compiled = framejit.compile(program, backend=backend)
    fallbacks = framejit.statistics()["fallbacks"]
    expected = told(program)
    assert "SqrtBackward0" in expected[0] and any(expected[2])
    assert [told(compiled) for _ in range(2)] == [expected, expected]
    assert framejit.statistics()["fallbacks"] == fallbacks + 1


@BACKENDS
def test_anomaly_mode_that_is_switched_off(backend):
    def program(t, debug):
        with torch.autograd.set_detect_anomaly(debug):
            return t.sin() + torch.is_anomaly_enabled()

    framejit.reset()
    compiled = framejit.compile(program, backend=backend)
    Comparison().same(program(x, False), compiled(x, False))
    assert framejit.statistics()["graphs"] == 1 and not framejit.statistics()["reasons"]
    Comparison().same(program(x, True), compiled(x, True))
    with torch.autograd.set_detect_anomaly(True):
        Comparison().same(program(x, False), compiled(x, False))
    Comparison().same(program(x, False), compiled(x, False))


@BACKENDS
def test_hooks_on_inputs(backend):
    runs = []
    for fn in (product, framejit.compile(product, backend=backend)):
        log = []
        leaf = x.clone().requires_grad_()
        leaf.register_hook(lambda g, log=log: log.append(("grad", isinstance(g, FakeTensor))))
        leaf.register_post_accumulate_grad_hook(lambda t, log=log: log.append(("accumulated", isinstance(t, FakeTensor))))
        fn(leaf * 1).sum().backward()
        fn(leaf).sum().backward()
        runs.append((log, leaf.grad))
    Comparison().same(*runs)


def test_what_is_put_aside_comes_back_when_a_trace_fails():
    def program(t):
        raise ValueError("on purpose")

    compiled = framejit.compile(program, backend="eager")
    shown = warnings._showwarnmsg
    for _ in range(2):
        with contextlib.suppress(ValueError):
            compiled(x)
    assert warnings._showwarnmsg is shown and not torch.is_warn_always_enabled()
    log = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: log.append(1) or t, lambda t: t):
        assert outcome(framejit.compile(lambda t: t.sin() * t, backend=failing), (x.clone().requires_grad_(),), {})[0] == "raised"
        log.clear()
        x.clone().requires_grad_().sin()
    assert log == [1]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        x.sin()
    assert any(event.name == "aten::sin" for event in profile.events())


def failing(gm, examples):
    raise RuntimeError("on purpose")
