"""The stance "eager_while_compiling": calls run uncompiled until a thread beside the program has compiled them."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch.overrides import TorchFunctionMode

import framejit
from framejit.driver import beside
from framejit.torch_state.torch_modes import DEFAULT_DTYPE

x = torch.arange(3.0)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    framejit.reset()
    framejit.report.reset_statistics()
    yield
    assert framejit.wait_until_compiled(60)


class Gate:
    """A backend that waits until it is opened, and notes the threads on which it has compiled."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.entered = threading.Event()
        self.threads: list[str] = []

    def __call__(self, gm: fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
        self.threads.append(threading.current_thread().name)
        self.entered.set()
        assert self.open.wait(60)
        return gm


def told() -> tuple[Callable[..., Any], Callable[..., str]]:
    """A function, and one that calls it and says how that went: is_compiling() is True in compiled code only."""

    def f(t: torch.Tensor, n: int = 1) -> tuple[torch.Tensor, bool]:
        return t * n, framejit.is_compiling()

    def ran(fast: Callable[..., Any], *args: Any) -> str:
        result, compiled = fast(*args)
        assert torch.equal(result, args[0] * (args[1] if len(args) > 1 else 1))
        return "compiled" if compiled else "eager"

    return f, ran


def test_calls_run_uncompiled_until_the_entry_is_there():
    f, ran = told()
    gate = Gate()
    fast = framejit.compile(f, backend=gate)
    with framejit.set_stance("eager_while_compiling"):
        assert [ran(fast, x), ran(fast, x)] == ["eager", "eager"]
        assert gate.entered.wait(60) and not framejit.wait_until_compiled(0.01)
        assert ran(fast, x) == "eager"
        gate.open.set()
        assert framejit.wait_until_compiled(60)
        assert ran(fast, x) == "compiled" and gate.threads == ["framejit-compiler"]
        assert ran(fast, x, 2) == "eager" and framejit.wait_until_compiled() and ran(fast, x, 2) == "compiled"
    assert "framejit-compiler" not in [thread.name for thread in threading.enumerate()] and framejit.statistics()["graphs"] == 2


def test_jobs_that_come_while_the_thread_ends():
    for _ in range(300):
        done: list[bool] = []
        jobs = [beside.ask(lambda: done.append(beside.is_worker())) for _ in range(2)]
        while jobs[0].is_pending():
            pass
        assert beside.wait_until_compiled(60)
        assert done == [True, True] and not any(job.failed for job in jobs)


def test_several_functions_wait_for_each_other():
    gate = Gate()
    results = [told() for _ in range(3)]
    fast = [framejit.compile(f, backend=gate) for f, _ in results]
    with framejit.set_stance("eager_while_compiling"):
        assert [ran(g, x) for g, (_, ran) in zip(fast, results)] == ["eager"] * 3
        gate.open.set()
        assert framejit.wait_until_compiled(60)
        assert [ran(g, x) for g, (_, ran) in zip(fast, results)] == ["compiled"] * 3


def test_the_rest_of_a_call_after_a_break():
    def f(t):
        t = t + 1
        framejit.graph_break()
        return t * 2, framejit.is_compiling()

    fast = framejit.compile(f, backend="eager")
    with framejit.set_stance("eager_while_compiling"):
        for compiled in (False, False, True):
            result, is_compiled = fast(x)
            assert torch.equal(result, (x + 1) * 2) and is_compiled is compiled
            assert framejit.wait_until_compiled(60)


MODES = {
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "autocast without cache": lambda: torch.autocast("cpu", torch.bfloat16, cache_enabled=False),
    "default device": lambda: torch.device("meta"),
}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_modes_of_the_calling_thread(mode):
    def f(t):
        made = torch.ones(3, 3)
        return (t @ t + 1), made.device, torch.is_grad_enabled(), framejit.is_compiling()

    fast = framejit.compile(f, backend="eager", fullgraph=True)
    t = torch.ones(3, 3, requires_grad=True)
    with framejit.set_stance("eager_while_compiling"), mode():
        expected = f(t)
        assert fast(t)[3] is False and framejit.wait_until_compiled(60)
        result = fast(t)
    assert result[3] is True and result[1:3] == expected[1:3]
    assert result[0].dtype == expected[0].dtype and result[0].requires_grad == expected[0].requires_grad and torch.equal(result[0], expected[0])


def test_under_modes_of_the_program_calls_are_compiled_where_they_are_made():
    class Doubles(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    gate = Gate()
    gate.open.set()
    fast = framejit.compile(lambda t: t.sin() + 1, backend=gate)
    with framejit.set_stance("eager_while_compiling"), Doubles():
        for _ in range(2):
            assert torch.equal(fast(x), x.sin() + 1)
            assert framejit.wait_until_compiled(60)
    assert gate.threads == ["MainThread"]


def test_errors_are_raised_where_the_function_is_called():
    def f(t):
        framejit.graph_break("no")
        return t

    fast = framejit.compile(f, backend="eager", fullgraph=True)
    with framejit.set_stance("eager_while_compiling"):
        assert fast(x) is x and framejit.wait_until_compiled(60)
        with pytest.raises(framejit.Unsupported, match=r"graph break asked for by the program.*\n.*test_beside.py"):
            fast(x)
        assert fast(x) is x  # and so on

    def broken(gm: fx.GraphModule, example_inputs: Any) -> Any:
        raise ValueError("broken")

    fast = framejit.compile(lambda t: t + 1, backend=broken)
    with framejit.set_stance("eager_while_compiling"):
        assert torch.equal(fast(x), x + 1) and framejit.wait_until_compiled(60)
        with pytest.raises(framejit.BackendError, match="broken"):
            fast(x)


def test_an_error_that_is_no_exception_leaves_the_thread_working():
    def exits(gm: fx.GraphModule, example_inputs: Any) -> Any:
        raise SystemExit(3)

    leaves, fast = framejit.compile(lambda t: t + 1, backend=exits), framejit.compile(lambda t: t * 2, backend="eager")
    with framejit.set_stance("eager_while_compiling"):
        assert torch.equal(leaves(x), x + 1) and framejit.wait_until_compiled(60)
        with pytest.raises(SystemExit):
            leaves(x)
        fast(x)
        assert framejit.wait_until_compiled(60) and len(fast.entries) == 1


def test_what_changes_meanwhile_is_compiled_again():
    class Config:
        scale = 2

    config = Config()
    gate = Gate()
    fast = framejit.compile(lambda t: t * config.scale, backend=gate)
    with framejit.set_stance("eager_while_compiling"):
        assert torch.equal(fast(x), x * 2) and gate.entered.wait(60)
        config.scale = 3
        assert torch.equal(fast(x), x * 3)
        gate.open.set()
        assert framejit.wait_until_compiled(60)
        for _ in range(3):
            assert torch.equal(fast(x), x * 3) and framejit.wait_until_compiled(60)
    assert len(fast.entries) == 1 and framejit.statistics()["internal_errors"] == 0


def test_over_the_limit():
    def f(t, n):
        return t * 2 if n else t

    fast = framejit.compile(f, backend="eager", recompile_limit=2, dynamic=False)
    sizes = [torch.ones(n) for n in range(2, 7)]
    with framejit.set_stance("eager_while_compiling"):
        for t in sizes * 3:
            assert torch.equal(fast(t, True), t * 2) and framejit.wait_until_compiled(60)
    assert len(fast.entries) == 2


def test_instances_share_what_one_has_compiled():
    class Layer(nn.Module):
        def forward(self, t):
            return t + 1

    layers = [framejit.compile(Layer(), backend="eager") for _ in range(4)]
    with framejit.set_stance("eager_while_compiling"):
        for _ in range(2):
            assert all(torch.equal(layer(x), x + 1) for layer in layers)
            assert framejit.wait_until_compiled(60)
        for layer in layers:
            layer(x)
    assert framejit.statistics()["graphs"] == 1


def test_the_backward_pass_is_compiled_beside_too():
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
    fast = framejit.compile(model, backend="inductor")
    seen = []
    with framejit.on_compile(end=lambda compilation: seen.append((compilation.why, compilation.beside))), framejit.set_stance("eager_while_compiling"):
        fast(x).sum().backward()
        assert framejit.wait_until_compiled(120)
        expected = [parameter.grad.clone() for parameter in model.parameters()]
        model.zero_grad()
        fast(x).sum().backward()
    assert seen == [("first call", True)]
    for parameter, gradient in zip(model.parameters(), expected):
        torch.testing.assert_close(parameter.grad, gradient)


def test_random_numbers_that_the_program_draws_meanwhile():
    gate = Gate()

    def backend(gm: fx.GraphModule, example_inputs: Any) -> Any:
        with torch._dynamo.utils.preserve_rng_state():
            return gate(gm, example_inputs)

    torch.manual_seed(0)
    expected = torch.rand(20).tolist()
    torch.manual_seed(0)
    fast = framejit.compile(lambda t: t + 1, backend=backend)
    with framejit.set_stance("eager_while_compiling"):
        fast(x)
        assert gate.entered.wait(60)
        drawn = [torch.rand(()).item() for _ in range(10)]
        gate.open.set()
        assert framejit.wait_until_compiled(60)
    assert drawn + [torch.rand(()).item() for _ in range(10)] == expected
    before = torch.get_rng_state()
    with torch._dynamo.utils.preserve_rng_state():  # of the program's own
        torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_random_numbers_around_a_compilation(backend):
    model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(10)])
    fast = framejit.compile(model, backend=backend)
    torch.manual_seed(0)
    drawn = []
    with framejit.set_stance("eager_while_compiling"):
        fast(torch.ones(2, 8))
        while not framejit.wait_until_compiled(0.002):
            drawn.append(torch.rand(()).item())
    drawn += [torch.rand(()).item() for _ in range(10)]
    torch.manual_seed(0)
    assert framejit.statistics()["graphs"] == 1 and drawn == [torch.rand(()).item() for _ in drawn]


def test_what_sets_something_for_the_whole_process_is_compiled_where_it_is_called():
    def program(t):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        made = torch.ones(2) + t.sum()
        torch.set_default_dtype(before)
        return made, framejit.is_compiling()

    fast = framejit.compile(program, backend="eager")
    with framejit.set_stance("eager_while_compiling"):
        assert fast(x)[1] is False
        while not framejit.wait_until_compiled(0.001):
            assert torch.get_default_dtype() is torch.float32
        made, compiled = fast(x)
        assert compiled and made.dtype is torch.float64
    assert torch.get_default_dtype() is torch.float32


def test_the_program_may_set_the_default_dtype_meanwhile():
    gate = Gate()
    fast = framejit.compile(lambda t: (torch.ones(2) + t.sum(), torch.is_grad_enabled()), backend=gate)
    try:
        with framejit.set_stance("eager_while_compiling"):
            assert fast(x)[0].dtype is torch.float32 and gate.entered.wait(60)
            torch.set_default_dtype(torch.float64)
            gate.open.set()
            assert framejit.wait_until_compiled(60) and torch.get_default_dtype() is torch.float64
            for _ in range(3):
                assert fast(x)[0].dtype is torch.float64 and framejit.wait_until_compiled(60)
            assert torch.get_default_dtype() is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_program_may_set_the_default_dtype_for_a_while():
    begun, may_go_on, traced, may_end = [threading.Event() for _ in range(4)]

    @torch.compiler.assume_constant_result
    def wait(here, there):
        if beside.is_worker():
            here.set()
            assert there.wait(60)
        return 1

    def program(t):
        number = wait(begun, may_go_on)
        made = torch.ones(2) + number
        return made + wait(traced, may_end), made.dtype, framejit.is_compiling()

    fast = framejit.compile(program, backend="eager")
    try:
        with framejit.set_stance("eager_while_compiling"):
            assert fast(x)[1:] == (torch.float32, False) and begun.wait(60)
            torch.set_default_dtype(torch.float64)
            may_go_on.set()
            assert traced.wait(60)
            torch.set_default_dtype(torch.float32)
            may_end.set()
            for _ in range(3):
                assert framejit.wait_until_compiled(60) and fast(x)[1] is torch.float32
            assert fast(x)[2] is True
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch._C._set_default_dtype is DEFAULT_DTYPE.put


def test_a_reset_meanwhile_leaves_nothing_of_before():
    gate = Gate()
    fast = framejit.compile(lambda t: t + 1, backend=gate)
    with framejit.set_stance("eager_while_compiling"):
        fast(x)
        assert gate.entered.wait(60)
        framejit.reset()
        gate.open.set()
        assert framejit.wait_until_compiled(60) and not fast.entries
        fast(x)
        assert framejit.wait_until_compiled(60) and len(fast.entries) == 1


def test_a_process_without_room_for_a_thread_compiles_where_it_is_called(monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    f, ran = told()
    fast = framejit.compile(f, backend="eager")
    with framejit.set_stance("eager_while_compiling"):
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", start)
            assert ran(fast, x) == "eager"
        assert framejit.wait_until_compiled(0) and ran(fast, x) == "compiled"


def test_training_goes_on_with_eagers_numbers():
    def losses(compiled: bool) -> list[float]:
        torch.manual_seed(0)
        model = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1), nn.BatchNorm1d(8)) for _ in range(8)])
        step = framejit.compile(model, backend="eager") if compiled else model
        optimizer = torch.optim.AdamW(model.parameters())
        data = torch.randn(4, 8)
        found = []
        for _ in range(40):
            loss = step(data).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.item())
        return found

    with framejit.set_stance("eager_while_compiling"):
        assert losses(compiled=True) == losses(compiled=False)


def test_arguments_are_let_go():
    class Holder:
        pass

    holder = Holder()
    gone = weakref.ref(holder)
    fast = framejit.compile(lambda t, held: t + 1, backend="eager")
    with framejit.set_stance("eager_while_compiling"):
        fast(x, holder)
        assert framejit.wait_until_compiled(60)
    del holder
    gc.collect()
    assert gone() is None


def test_reset_drops_what_has_not_begun():
    gate = Gate()
    first, second = (framejit.compile(told()[0], backend=gate) for _ in range(2))
    with framejit.set_stance("eager_while_compiling"):
        first(x)
        assert gate.entered.wait(60)
        second(x)
        framejit.reset()
        gate.open.set()
        assert framejit.wait_until_compiled(60)
        assert len(gate.threads) == 1 and not second.entries
        second(x)
        assert framejit.wait_until_compiled(60) and len(second.entries) == 1


def test_a_call_on_the_compiling_thread_does_not_wait_for_itself():
    waited = []
    fast = framejit.compile(lambda t: t + 1, backend="eager")
    with framejit.on_compile(start=lambda compilation: waited.append(framejit.wait_until_compiled(5))), framejit.set_stance("eager_while_compiling"):
        fast(x)
        assert framejit.wait_until_compiled(60)
    assert waited == [False]


def run(program: str) -> str:
    """Run a program in a process of its own, which must end without an error. Returns what it prints."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120, env={**os.environ})
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr and "terminate" not in done.stderr, done.stderr
    return done.stdout


def test_a_process_that_is_forked_while_torchs_lock_is_held():
    assert run("""
        import os, threading, torch, framejit
        from torch._dynamo.convert_frame import compile_lock
        begun, may_end = threading.Event(), threading.Event()
        def slow(gm, inputs):
            with compile_lock:
                begun.set()
                may_end.wait(60)
            return gm
        framejit.set_stance("eager_while_compiling")
        framejit.compile(lambda t: t + 1, backend=slow)(torch.zeros(1))
        begun.wait(60)
        child = os.fork()
        if not child:
            may_end.set()
            framejit.set_stance("default")
            print(framejit.compile(lambda t: t + 2, backend=slow)(torch.zeros(1)).item(), flush=True)
            os._exit(0)
        print(os.waitpid(child, 0)[1])
        may_end.set()
    """) == "2.0\n0\n"


def test_what_stops_the_thread_is_not_printed(monkeypatch):
    class Raising:
        def __init__(self, error):
            self.error = error

        def __del__(self):
            raise self.error

    found = []
    monkeypatch.setattr(sys, "unraisablehook", lambda ignored: found.append(ignored.exc_type))
    hook = sys.unraisablehook
    with beside.unseen():
        for error in (beside.Stopped(), ValueError()):
            Raising(error)
    assert found == [ValueError] and sys.unraisablehook is hook


def test_the_garbage_collector_is_the_programs():
    gate = Gate()
    fast = framejit.compile(lambda t: t + 1, backend=gate)
    with framejit.set_stance("eager_while_compiling"):
        fast(x)
        assert gate.entered.wait(60) and gc.isenabled()
        gc.disable()
        try:
            gate.open.set()
            assert framejit.wait_until_compiled(60) and not gc.isenabled()
        finally:
            gc.enable()


def test_a_process_that_ends_meanwhile():
    assert run("""
        import threading, time, torch, framejit
        begun = threading.Event()
        def endless(gm, inputs):
            begun.set()
            while True:
                time.sleep(0.01)
        framejit.set_stance("eager_while_compiling")
        print(framejit.compile(lambda t: t + 1, backend=endless)(torch.zeros(1)))
        begun.wait(60)
    """) == "tensor([1.])\n"


def test_a_forked_process_compiles_for_itself():
    assert run("""
        import os, threading, torch, framejit
        begun, may_end = threading.Event(), threading.Event()
        def slow(gm, inputs):
            begun.set()
            may_end.wait(60)
            return gm
        fast = framejit.compile(lambda t: (t + 1, framejit.is_compiling()), backend=slow)
        framejit.set_stance("eager_while_compiling")
        fast(torch.zeros(1))
        begun.wait(60)
        child = os.fork()
        if not child:
            may_end.set()
            print(fast(torch.zeros(1))[1], framejit.wait_until_compiled(60), fast(torch.zeros(1))[1], flush=True)
            os._exit(0)
        print(os.waitpid(child, 0)[1])
        may_end.set()
        print(framejit.wait_until_compiled(60), fast(torch.zeros(1))[1])
    """) == "False True True\n0\nTrue True\n"


def test_the_stance_holds_on_one_thread_or_in_the_process():
    assert not beside.is_wanted()
    with framejit.set_stance("eager_while_compiling"):
        seen: list[bool] = []
        thread = threading.Thread(target=lambda: seen.append(beside.is_wanted()))
        thread.start()
        thread.join()
        assert beside.is_wanted() and seen == [False]
