"""Threads that share compiled functions, and what framejit costs a program that compiles nothing."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from together import together
from torch import nn

import framejit
from framejit import _runtime, config

x = torch.ones(2, 3)


def expect(result: torch.Tensor, expected: torch.Tensor) -> None:
    assert torch.equal(result, expected)


def test_first_calls_at_once_compile_once():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    fast = framejit.compile(model, backend="eager", fullgraph=True)
    expected = model(x)
    together(*[lambda: expect(fast(x), expected)] * 4)
    assert len(type(fast).__call__.entries) == 1
    before = framejit.statistics()["frames"]
    together(*[lambda: expect(fast(x), expected)] * 4)
    assert framejit.statistics()["frames"] == before


def test_different_calls_at_once():
    compiled = framejit.compile(lambda t, n: (t + n).sum(0) * n, backend="eager", fullgraph=True, dynamic=False)

    def task(n: int) -> Callable[[], None]:
        t = torch.full((n, 3), float(n))

        def run() -> None:
            for _ in range(200):
                expect(compiled(t, n), (t + n).sum(0) * n)

        return run

    together(*[task(n) for n in range(1, 6)])
    assert 5 <= len(compiled.entries) <= config.current().recompile_limit


def test_guards_that_let_other_threads_run():
    """torch reads the elements of sparse tensors without the GIL, and Python code reads how NumPy handles errors: others may walk the same guards meanwhile."""
    sparse, array = torch.eye(3).to_sparse(), np.ones(3)
    holder = SimpleNamespace(weight=torch.ones(3))
    compiled = framejit.compile(lambda s, a: s._values() + holder.weight + a.sum(), backend="eager", fullgraph=True)
    for _ in range(3):
        expected = compiled(sparse, array)
    assert len(compiled.entries) == 1
    done = threading.Event()

    def call() -> None:
        for _ in range(500):
            expect(compiled(sparse, array), expected)

    def change() -> None:
        while not done.wait(0.0001):
            holder.weight = torch.ones(3)  # the last reference to the old one goes

    changing = threading.Thread(target=change)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    changing.start()
    try:
        together(*[call] * 4)
    finally:
        done.set()
        changing.join()
        sys.setswitchinterval(interval)
    assert len(compiled.entries) == 1


def test_one_thread_resets_meanwhile():
    compiled = framejit.compile(lambda t, n: t * n, backend="eager", fullgraph=True)
    done = threading.Event()

    def call(n: int) -> None:
        try:
            for _ in range(60):
                expect(compiled(x, n), x * n)
        finally:
            done.set()

    def reset() -> None:
        while not done.is_set():
            framejit.reset()
            time.sleep(0.01)

    together(lambda: call(1), lambda: call(2), reset)


def test_one_thread_makes_functions_while_another_resets():
    def make() -> None:
        for n in range(2000):
            framejit.compile(lambda t, n=n: t + n, backend="eager")

    def reset() -> None:
        for _ in range(100):
            framejit.reset()

    together(make, make, reset)


def test_guarded_state_changes_while_others_call():
    model = nn.Linear(3, 3)
    fast = framejit.compile(lambda t: model(t) * 2, backend="eager", fullgraph=True)

    def call() -> None:
        for _ in range(300):
            assert fast(x).shape == (2, 3)

    def change() -> None:
        for _ in range(100):
            model.weight = nn.Parameter(torch.ones(3, 3))

    together(call, call, change)
    expect(fast(x), model(x) * 2)


class Setting:
    value = 0


def test_what_is_guarded_changes_while_it_is_compiled():
    """Each compilation comes too late: after a few, the call runs uncompiled, and says why; it compiles when the change is over."""
    changes = 100
    compiled_for = []

    def backend(gm: Any, example_inputs: Any) -> Any:
        nonlocal changes
        compiled_for.append(Setting.value)
        if changes:
            changes -= 1
            Setting.value += 1
        return gm

    function = framejit.compile(lambda t: t + Setting.value, backend=backend)
    whole = framejit.compile(lambda t: t - Setting.value, backend=backend, fullgraph=True)

    def call() -> None:
        nonlocal changes
        Setting.value = 0
        expect(function(x), x + 3)
        assert compiled_for == [0, 1, 2] and function.entries == ()
        (reason,) = [reason for reason in framejit.statistics()["reasons"] if "while this changes" in reason]
        assert "value" in reason
        with pytest.raises(framejit.Unsupported, match="can't be compiled while this changes"):
            whole(x)
        changes = 1
        expect(function(x), x + 7)
        assert compiled_for[6:] == [6, 7] and len(function.entries) == 1
        expect(function(x), x + 7)
        assert function.entries[0].hits == 2

    framejit.reset()
    together(call)


def test_anomaly_detection_of_another_threads_backend():
    """AOTAutograd switches it for the whole process while it traces. Calls that have an entry go on as soon as it is off, others are compiled."""
    tracing, go_on = threading.Event(), threading.Event()

    def backend(gm: Any, example_inputs: Any) -> Any:
        with torch.autograd.detect_anomaly(check_nan=False):
            tracing.set()
            time.sleep(0.2)  # so that the other calls begin meanwhile
        assert go_on.wait(30)
        return gm

    slow = framejit.compile(lambda t: t * 3, backend=backend)
    quick = framejit.compile(lambda t: t * 2, backend="eager", fullgraph=True)
    new = framejit.compile(lambda t: t * 4, backend="eager", fullgraph=True)
    quick(x)

    def with_entry() -> None:
        tracing.wait(30)
        expect(quick(x), x * 2)
        go_on.set()

    def without() -> None:
        tracing.wait(30)
        expect(new(x), x * 4)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        together(lambda: expect(slow(x), x * 3), with_entry, without)
    assert len(quick.entries) == len(new.entries) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_as_many_graphs_as_on_one_thread(backend: str):
    """While one thread compiles, its backend changes state of the whole process: no entry of other threads fails for that, and no call runs uncompiled."""
    model = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Dropout(0.0), nn.Linear(4, 3))

    def scaled(t: torch.Tensor, n: int) -> torch.Tensor:
        if n < 0:
            raise ValueError(n)
        return (t * t).sum(0) * n

    def work(first: int) -> None:
        for i in range(first, first + 24):
            t = torch.full((i % 5 + 1, 3), float(i), requires_grad=True)
            torch.testing.assert_close(fast(t), model(t))
            expect(other(t, 2), scaled(t, 2))
            other(t, 2).sum().backward()
            expect(t.grad, 4 * t)
            with pytest.raises(ValueError):
                other(t, -1)

    def graphs(run: Callable[[], object]) -> dict[str, Any]:
        nonlocal fast, other
        framejit.reset()
        fast, other = framejit.compile(model, backend=backend), framejit.compile(scaled, backend=backend)
        run()
        found = framejit.statistics()
        return {name: found[name] for name in ("graphs", "fallbacks", "reasons")}

    fast = other = scaled
    alone = graphs(lambda: work(0))
    at_once = graphs(lambda: together(*[lambda first=first: work(first) for first in range(4)]))
    assert at_once["graphs"] <= alone["graphs"] + 2  # a thread may begin with another size
    assert at_once["fallbacks"] == alone["fallbacks"]


def test_a_call_that_waited_for_a_compilation_uses_what_it_made():
    compiled_by, compiling = [], threading.Event()

    def backend(gm: Any, example_inputs: Any) -> Any:
        compiled_by.append(threading.get_ident())
        compiling.set()
        time.sleep(0.3)
        return gm

    function = framejit.compile(lambda t: t + 1, backend=backend)

    def late() -> None:
        compiling.wait(30)
        expect(function(x), x + 1)

    together(lambda: expect(function(x), x + 1), late, late)
    assert len(compiled_by) == len(function.entries) == 1


def test_modes_belong_to_their_thread():
    model = nn.Linear(3, 3)
    fast = framejit.compile(model, backend="eager", fullgraph=True)

    def with_grad() -> None:
        for _ in range(50):
            assert fast(x).requires_grad and torch.is_grad_enabled()

    def without() -> None:
        with torch.no_grad():
            for _ in range(50):
                assert not fast(x).requires_grad and not torch.is_grad_enabled()

    together(with_grad, without, with_grad, without)
    assert len(type(fast).__call__.entries) <= 4


def test_disable_holds_for_its_own_thread():
    compiled = framejit.compile(lambda t: (t + 1, framejit.is_compiling()), backend="eager", fullgraph=True)
    inside, finish = threading.Event(), threading.Event()

    def off() -> None:
        with framejit.disable():
            inside.set()
            finish.wait(30)
            assert compiled(x)[1] is False

    def on() -> None:
        inside.wait(30)
        assert compiled(x)[1] is True
        finish.set()

    together(off, on)


def test_a_thread_calls_while_another_compiles():
    """A slow compilation holds up nobody who has an entry, nor programs that compile nothing."""
    compiling, go_on = threading.Event(), threading.Event()

    def backend(gm: Any, example_inputs: Any) -> Any:
        compiling.set()
        assert go_on.wait(30)
        return gm

    slow = framejit.compile(lambda t: t * 3, backend=backend)
    quick = framejit.compile(lambda t: t * 2, backend="eager")
    quick(x)

    def other() -> None:
        compiling.wait(30)
        expect(quick(x), x * 2)
        expect(x + 1, torch.full((2, 3), 2.0))
        assert not _runtime.is_thread_compiling()
        go_on.set()

    together(lambda: expect(slow(x), x * 3), other)


def test_a_call_while_another_threads_backend_traces():
    """torch says of the whole process that one of its tracers is in force: a backend's on another thread is not the program's."""
    tracing = threading.Event()

    def backend(gm: Any, example_inputs: Any) -> Any:
        def while_traced(t: Any) -> Any:
            tracing.set()
            time.sleep(0.2)  # so that the other call begins meanwhile
            return t * 3

        torch.fx.symbolic_trace(while_traced)
        return gm

    slow = framejit.compile(lambda t: t * 3, backend=backend)
    other = framejit.compile(lambda t: t * 2, backend="eager", fullgraph=True)

    def call() -> None:
        tracing.wait(30)
        expect(other(x), x * 2)

    together(lambda: expect(slow(x), x * 3), call)
    assert len(other.entries) == 1


def test_errors_stay_in_their_thread():
    def fails(t: torch.Tensor, bad: bool) -> torch.Tensor:
        if bad:
            raise ValueError("bad")
        return t + 1

    compiled = framejit.compile(fails, backend="eager")

    def bad() -> None:
        for _ in range(50):
            with pytest.raises(ValueError, match="bad"):
                compiled(x, True)

    def good() -> None:
        for _ in range(50):
            expect(compiled(x, False), x + 1)

    together(bad, good, bad, good)


def test_many_threads_that_come_and_go():
    compiled = framejit.compile(lambda t, n: t * n, backend="eager", dynamic=False)
    for n in range(30):
        thread = threading.Thread(target=lambda n=n: expect(compiled(x, n % 3), x * (n % 3)))
        thread.start()
        thread.join()
    assert len(compiled.entries) == 3


# ---- switches at every chance ----

OFTEN = 1e-6


def test_first_calls_of_many_threads():
    """Functions with a module, a mutation, a graph break and a loop: whoever finds an entry finds a whole one."""
    for _ in range(6):
        model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

        def program(t: torch.Tensor, items: list[Any]) -> Any:
            total = model(t)
            framejit.graph_break()
            for n in range(3):
                items.append(n)
                total = total + n
            return total, items

        compiled = framejit.compile(program, backend="eager")
        expected = program(x, [])

        def call() -> None:
            for _ in range(5):
                result, items = compiled(x, [])
                expect(result, expected[0])
                assert items == [0, 1, 2]

        together(*[call] * 6, interval=OFTEN)
        assert 1 <= len(compiled.entries) <= 6


def test_attributes_change_while_others_call():
    """Each call sees the values of one moment: the guards and what the walk fetched belong together."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mode = ("plus", 1.0)
            self.register_buffer("offset", torch.zeros(3))

        def forward(self, t: torch.Tensor) -> torch.Tensor:
            how, number = self.mode
            return (t + number if how == "plus" else t * number) + self.offset

    model = Scaled()
    fast = framejit.compile(model, backend="eager")
    modes = [("plus", 1.0), ("times", 3.0), ("plus", 5.0)]
    allowed = [(x + n if how == "plus" else x * n) + offset for how, n in modes for offset in (0.0, 10.0)]
    stop = threading.Event()

    def call() -> None:
        try:
            for _ in range(400):
                result = fast(x)
                assert any(torch.equal(result, each) for each in allowed), result
        finally:
            stop.set()

    def change() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            model.mode = modes[n % 3]
            model.offset = torch.full((3,), 10.0 * (n % 2))

    together(call, call, change, interval=OFTEN)
    expect(fast(x), model(x))


def test_look_ups_while_others_compile_and_reset():
    compiled = framejit.compile(lambda t, n: t * n + n, backend="eager")
    stop = threading.Event()

    def call(n: int) -> None:
        try:
            for _ in range(150):
                expect(compiled(x, n), x * n + n)
        finally:
            stop.set()

    def compile_others() -> None:
        n = 100
        while not stop.is_set():
            n += 1
            expect(compiled(x, n), x * n + n)

    def reset() -> None:
        while not stop.is_set():
            framejit.reset()
            compiled.clear()
            time.sleep(0.005)

    together(lambda: call(1), lambda: call(2), compile_others, reset, interval=OFTEN)


@pytest.mark.slow
def test_models_are_deleted_while_others_are_called():
    """One thread drops models that others may be calling: entries, their guards and graphs live as long as a call needs them."""
    shelf: list[Any] = [None] * 4
    stop = threading.Event()

    def make() -> None:
        try:
            for n in range(60):
                model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
                shelf[n % 4] = framejit.compile(model, backend="eager")
                del model
                shelf[(n + 2) % 4] = None
                if n % 10 == 0:
                    gc.collect()
        finally:
            stop.set()

    def call(start: int) -> None:
        n = start
        while not stop.is_set():
            n += 1
            fast = shelf[n % 4]
            if fast is not None:
                result = fast(x)
                expect(result, torch.relu(torch.nn.functional.linear(x, fast[0].weight, fast[0].bias)))

    together(make, lambda: call(0), lambda: call(1), interval=OFTEN)


def test_entries_are_removed_while_others_look_them_up():
    """Classes die, and with them the entries that know them."""

    def make() -> Any:
        class Local:
            factor = 2.0

        return Local()

    compiled = framejit.compile(lambda t, owner: t * owner.factor, backend="eager")
    lasting = make()

    def come_and_go() -> None:
        for n in range(40):
            owner = make()
            type(owner).factor = float(n)
            expect(compiled(x, owner), x * n)

    def call() -> None:
        for _ in range(300):
            expect(compiled(x, lasting), x * 2.0)

    together(come_and_go, call, call, interval=OFTEN)


def test_modes_and_directives_of_many_threads():
    model = nn.Linear(3, 3)
    fast = framejit.compile(lambda t: (model(t).requires_grad, torch.get_default_dtype()), backend="eager")

    def with_grad() -> None:
        for _ in range(60):
            assert fast(x)[0]

    def without() -> None:
        for _ in range(60):
            with torch.no_grad():
                assert not fast(x)[0]

    def disabled() -> None:
        for _ in range(60):
            with framejit.disable():
                assert fast(x)[0]

    together(with_grad, without, disabled, with_grad, interval=OFTEN)


# ---- programs that compile nothing ----


def test_the_hook_is_up_during_compiled_calls_only():
    assert not _runtime.hook_installed()
    seen = []

    def backend(gm: Any, example_inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            seen.append(_runtime.hook_installed())
            return gm(*args)

        return run

    compiled = framejit.compile(lambda t: t + 1, backend=backend)
    compiled(x), compiled(x)
    assert seen == [False, False] and not _runtime.hook_installed()


def test_a_program_that_compiles_nothing_runs_without_the_hook():
    check = "import sys, torch, framejit; from framejit import _runtime; print(_runtime.hook_installed(), 'framejit.compiler.compile' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout.split() == ["False", "False"]
