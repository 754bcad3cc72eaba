"""Compiled code keeps no object of the user's alive that would be gone without it, and keeps no more with every call."""

from __future__ import annotations

import collections
import contextlib
import copy
import functools
import gc
import os
import signal
import subprocess
import sys
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from handmade import run_python
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import framejit
from framejit._runtime import CompiledFunction, Entry
from framejit.tracing.tracer import Tracer

x = torch.ones(2, 3)
BACKENDS = ("eager", "aot_eager")
SMALL = 8000
"""Bytes that a compilation may leave behind, in torch's own caches and in tables that grow; an entry has some tens of thousands."""


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    framejit.reset()
    gc.collect()
    yield


class Net(nn.Module):
    """A module that reads attributes of each kind."""

    shared: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.LayerNorm(3)])
        self.norm = nn.BatchNorm1d(3)
        self.items = [1, 2, {"a": torch.ones(3)}]
        self.owner = Owner()
        self.function = lambda t: t * 2

    def forward(self, t):
        for layer in self.layers:
            t = torch.relu(layer(t))
        return self.function(self.norm(t)) * self.owner.scale + self.items[2]["a"] * self.items[0]


class Owner:
    """Something of the user's with a value."""

    def __init__(self) -> None:
        self.scale = 2.0


def alive(references: dict[str, weakref.ref[Any]]) -> list[str]:
    gc.collect()
    return [name for name, reference in references.items() if reference() is not None]


def references_of(model: Net) -> dict[str, weakref.ref[Any]]:
    parts = {"model": model, "layer": model.layers[0], "owner": model.owner, "function": model.function,
             "buffer": model.norm.running_mean, "tensor": model.items[2]["a"]}  # fmt: skip
    return {name: weakref.ref(part) for name, part in parts.items()}


def count(*kinds: type) -> int:
    gc.collect()
    return sum(type(obj) in kinds for obj in gc.get_objects())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_a_compiled_model_dies_with_its_last_name(backend, train):
    model = Net()
    fast = framejit.compile(model, backend=backend)
    references = references_of(model) | {"compiled": weakref.ref(fast), "class": weakref.ref(type(fast))}
    for _ in range(2):
        result = fast(x)
        if train:
            result.sum().backward()
    [entry] = type(fast).__call__.entries
    references["entry"] = weakref.ref(entry)
    del model, fast, result, entry
    assert alive(references) == ["class", "entry"]  # for another model of the class
    framejit.reset()
    assert alive(references) == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_argument_is_not_kept(backend):
    compiled = framejit.compile(lambda model, t: model(t), backend=backend)
    model, t = Net(), torch.ones(2, 3)
    references = references_of(model) | {"input": weakref.ref(t)}
    compiled(model, t), compiled(model, t)
    assert len(compiled.entries) == 1
    del model, t
    assert alive(references) == []
    other = Net()
    assert torch.equal(compiled(other, x), other(x)), "and the entry that it leaves does no harm"


def test_a_closure_dies_with_its_function():
    model = Net()
    references = references_of(model)

    def make(inner: Net) -> Callable[..., Any]:
        return lambda t: inner(t) + 1

    function = make(model)
    compiled = framejit.compile(function, backend="eager")
    references |= {"closure": weakref.ref(function), "compiled function": weakref.ref(compiled), "code": weakref.ref(function.__code__)}
    compiled(x)
    references["entry"] = weakref.ref(compiled.entries[0])
    code, entry = references.pop("code"), references.pop("entry")
    del model, function, compiled
    assert alive(references) == []
    assert code() is not None, "make keeps it"
    assert entry() is not None, "it waits for the next function of this code"


def test_a_global_is_not_kept():
    model = globals()["MODEL"] = Net()
    compiled = framejit.compile(lambda t: MODEL(t), backend="eager")  # type: ignore[name-defined]  # noqa: F821
    compiled(x)
    references = references_of(model)
    del globals()["MODEL"]
    del model
    assert alive(references) == []
    with pytest.raises(NameError):
        compiled(x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_classes_and_functions_that_were_seen_die(backend):
    def build() -> tuple[Any, dict[str, weakref.ref[Any]]]:
        class Local(nn.Module):
            factor = torch.full((3,), 2.0)

            def forward(self, t):
                return helper(t) * self.factor

        def helper(t):
            return t + 1

        model = Local()
        return model, {"class": weakref.ref(Local), "helper": weakref.ref(helper), "factor": weakref.ref(Local.factor)}

    compiled = framejit.compile(lambda model, t: model(t), backend=backend)
    model, references = build()
    assert torch.equal(compiled(model, x), model(x))
    del model
    assert alive(references) == []


def test_what_was_replaced_is_not_kept():
    model = Net()
    fast = framejit.compile(model, backend="eager")
    fast(x)
    references = {"layer": weakref.ref(model.layers[0]), "owner": weakref.ref(model.owner), "weight": weakref.ref(model.layers[0].weight)}
    model.layers[0] = nn.Linear(3, 3)
    model.owner = Owner()
    fast(x)
    assert alive(references) == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_inputs_and_results_are_not_kept(backend):
    compiled = framejit.compile(lambda t, items: (t * 2, items[0] + 1, items), backend=backend)
    t, items = torch.ones(4, requires_grad=True), [torch.ones(4)]
    result = compiled(t, items)
    references = {"t": weakref.ref(t), "item": weakref.ref(items[0]), "result": weakref.ref(result[0]), "other": weakref.ref(result[1])}
    del t, items, result
    assert alive(references) == []
    assert len(compiled.entries) == 1


def test_a_fallback_keeps_nothing():
    compiled = framejit.compile(lambda model, t: model(t) * len(repr(t)), backend="eager")
    model, t = Net(), torch.ones(2, 3)
    references = references_of(model) | {"t": weakref.ref(t)}
    compiled(model, t)
    del model, t
    assert alive(references) == []


def test_an_exception_of_the_program_keeps_nothing():
    compiled = framejit.compile(lambda model, t: model(t) + {}["missing"], backend="eager")
    model, t = Net(), torch.ones(2, 3)
    references = references_of(model) | {"t": weakref.ref(t)}
    for _ in range(2):
        with pytest.raises(KeyError):
            compiled(model, t)
    del model, t
    assert alive(references) == []


@pytest.mark.slow
def test_a_failed_compile_keeps_nothing():
    def backend(gm, example_inputs):
        raise ZeroDivisionError

    compiled = framejit.compile(lambda model, t: model(t), backend=backend)
    unsupported = framejit.compile(lambda model, t: len(repr(model(t))), backend="eager", fullgraph=True)
    model, t = Net(), torch.ones(2, 3)
    references = references_of(model) | {"t": weakref.ref(t)}
    before = count(Tracer)
    for call, error in ((compiled, framejit.BackendError), (unsupported, framejit.Unsupported)):
        with pytest.raises(error):
            call(model, t)
    del model, t
    assert alive(references) == [] and count(Tracer) == before


class Held:
    """Something to pass, whose end is to be seen."""


def refusing(t):
    yield t
    raise ValueError(1)


def ending(t):
    yield t
    raise StopIteration


def raises(held, t):
    raise ValueError(1)


def raises_behind_a_break(held, t):
    framejit.graph_break()
    raise ValueError(1)


def raises_in_a_called_function(held, t):
    return raises(held, t) if framejit.graph_break() is None else held


def raises_in_a_generator(held, t):
    framejit.graph_break()
    return sum(refusing(t), t)


def raises_stop_iteration_in_a_generator(held, t):
    return [value + 1 for value in ending(t)]


def raises_in_a_generator_from_outside(held, t):
    made = refusing(t)
    next(made)
    made.throw(ValueError(2))


def raises_in_a_with_block(held, t):
    with torch.no_grad():
        framejit.graph_break()
        raise ValueError(t.sum().item())


def raises_while_handling(held, t):
    try:
        framejit.graph_break()
        raise KeyError
    except KeyError as error:
        raise ValueError(3) from error


def raises_what_an_operator_raises(held, t):
    framejit.graph_break()
    return t.reshape(7)


RAISING = (
    raises, raises_behind_a_break, raises_in_a_called_function, raises_in_a_generator, raises_stop_iteration_in_a_generator,
    raises_in_a_generator_from_outside, raises_in_a_with_block, raises_while_handling, raises_what_an_operator_raises,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("program", RAISING, ids=lambda program: program.__name__)
def test_a_call_that_raises_lets_go_at_once(program):
    compiled = framejit.compile(program, backend="eager")
    gc.disable()
    try:
        for call in (program, compiled, compiled):
            held = Held()
            reference = weakref.ref(held)
            with contextlib.suppress(ValueError, RuntimeError):
                call(held, x)
            del held
            assert reference() is None, call
    finally:
        gc.enable()


def test_a_signal_handlers_exception_lets_go_at_once():
    def raise_timeout(number, frame):
        raise TimeoutError

    def backend(gm, example_inputs):
        signal.raise_signal(signal.SIGUSR1)
        return gm

    held = Held()
    reference = weakref.ref(held)
    compiled = framejit.compile(lambda held, t: t + 1, backend=backend)
    before = signal.signal(signal.SIGUSR1, raise_timeout)
    gc.disable()
    try:
        with contextlib.suppress(TimeoutError):
            compiled(held, x)
        del held
        assert reference() is None
    finally:
        gc.enable()
        signal.signal(signal.SIGUSR1, before)


FIRST_OF_THE_PROCESS = """
import gc, weakref
import framejit, torch

class Batch:
    tensor = torch.ones(2)

f = framejit.compile(lambda batch: batch.tensor + 1, backend={backend!r})
gc.disable()
batch = Batch()
reference = weakref.ref(batch)
f(batch)
del batch
print(reference() is None)
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_first_call_of_a_process_lets_go_of_its_arguments(backend):
    assert run_python(FIRST_OF_THE_PROCESS.format(backend=backend)).split() == ["True"]


@pytest.mark.only_eager("AOTAutograd keeps fake tensors for as long as the backward may have to be compiled")
def test_the_tracers_structures_are_gone_at_once():
    compiled = framejit.compile(Net(), backend="eager")
    before = count(Tracer, FakeTensor, FakeTensorMode)
    compiled(x), compiled(torch.ones(4, 3))
    assert count(Tracer, FakeTensor, FakeTensorMode) == before


def assert_ends_before_it_is_left(f: Any, ended: list[str]) -> None:
    """Compiled, the generator that `f` runs over ends when the loop is left, without the garbage collector."""
    compiled = framejit.compile(f, backend="eager")
    gc.disable()
    try:
        for _ in range(2):
            ended.clear()
            compiled(x)
            assert ended == ["ended", "left"]
    finally:
        gc.enable()


def test_a_generator_that_a_loop_leaves_ends_at_once():
    ended: list[str] = []

    def halves(t):
        try:
            for i in range(3):
                framejit.graph_break()
                yield t / 2
        finally:
            ended.append("ended")

    def f(t):
        for half in halves(t):
            framejit.graph_break()
            t = t + half
            break
        ended.append("left")
        return t

    assert_ends_before_it_is_left(f, ended)


def test_a_traced_exception_that_was_handled_holds_no_frame():
    ended: list[str] = []

    @framejit.disable
    def halves(t):
        try:
            yield t / 2
        finally:
            ended.append("ended")

    def break_graph():
        raise ValueError("refused")

    def f(t):
        for half in halves(t):
            t = t + half
            try:
                break_graph()
            except ValueError as error:
                framejit.graph_break()
                t = t * len(error.args)
            break
        ended.append("left")
        return t

    assert_ends_before_it_is_left(f, ended)


def test_a_generator_that_waits_does_not_keep_the_inputs_of_graphs():
    seen: list[bool] = []

    def backend(gm, example_inputs):
        def run(inputs):
            references = [weakref.ref(tensor) for tensor in inputs]
            outputs = gm(*inputs)
            inputs.clear()
            seen.append(all(reference() is None for reference in references))
            return outputs

        run._boxed_call = True
        return run

    @framejit.disable
    def numbers():
        try:
            yield from range(3)
        finally:
            seen.append("ended")

    def f(t):
        for number in numbers():
            made = t * 2
            framejit.graph_break()
            t = made * 3
            del made
            framejit.graph_break()
        return t

    compiled = framejit.compile(f, backend=backend)
    compiled(torch.ones(2)), seen.clear()
    compiled(torch.ones(2))
    assert "ended" in seen and seen.count(True) >= 5


def test_the_backends_graph_dies_with_the_entry():
    graphs: list[weakref.ref[Any]] = []

    def backend(gm, example_inputs):
        graphs.append(weakref.ref(gm))
        return gm

    compiled = framejit.compile(lambda t: t * 2, backend=backend)
    compiled(x)
    gc.collect()
    assert graphs[0]() is not None
    compiled.clear()
    gc.collect()
    assert graphs[0]() is None


def test_reset_frees_everything_compiled():
    made = [framejit.compile(Net(), backend="eager") for _ in range(3)]
    entries = []
    for fast in made:
        fast(x)
        entries += [weakref.ref(entry) for entry in type(fast).__call__.entries]
    framejit.reset()
    gc.collect()
    assert [entry() for entry in entries] == [None] * 3
    for fast in made:
        fast(x)
    assert len(type(made[0]).__call__.entries) == 1


def test_reset_during_a_call():
    def backend(gm, example_inputs):
        framejit.reset()
        return gm

    compiled = framejit.compile(lambda t: t + 1, backend=backend)
    assert torch.equal(compiled(x), x + 1) and torch.equal(compiled(x), x + 1)


def test_dropped_in_the_middle_of_its_own_call():
    holder: list[Any] = []

    def backend(gm, example_inputs):
        def run(*args):
            holder.clear()
            gc.collect()
            return gm(*args)

        return run

    holder.append(framejit.compile(lambda t: [t + 1], backend=backend))
    assert torch.equal(holder[0](x)[0], x + 1) and not holder


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(step: Callable[[], object], times: int, warm: int) -> tuple[int, int]:
    """Bytes that Python's allocations, and the process, have grown by over `times` steps, after `warm` others."""

    def collect() -> None:
        for _ in range(3):  # of what AOTAutograd leaves, some is garbage only when the finalizers of the rest have run
            gc.collect()

    for _ in range(warm):
        step()
    collect()
    tracemalloc.start()
    try:
        process, before = resident(), tracemalloc.get_traced_memory()[0]
        for _ in range(times):
            step()
        collect()
        return tracemalloc.get_traced_memory()[0] - before, resident() - process
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.only_eager("torch keeps the source text of each graph that AOTAutograd makes, with torch.compile too")
def test_compiling_and_dropping_does_not_grow():
    def cycle() -> None:
        model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        framejit.compile(model, backend="eager")(x)
        framejit.compile(lambda t: model(t) + 1, backend="eager")(x)

    kinds = (CompiledFunction, Entry, torch.fx.GraphModule, Tracer, FakeTensorMode)
    for _ in range(20):
        cycle()
    before = count(*kinds)
    python, process = growth(cycle, 60, 20)
    assert count(*kinds) == before
    assert python < 60 * SMALL, f"{python / 60:.0f} bytes for each cycle"
    assert process < 24 << 20


@pytest.mark.slow
@pytest.mark.only_eager("torch keeps the source text of each graph that AOTAutograd makes, with torch.compile too")
def test_compiling_and_resetting_does_not_grow():
    model = Net()
    fast = framejit.compile(model, backend="eager")

    def cycle() -> None:
        fast(x)
        framejit.reset()

    python, process = growth(cycle, 30, 20)
    assert python < 30 * SMALL, f"{python / 30:.0f} bytes for each cycle"
    assert process < 24 << 20


@pytest.mark.slow
def test_calls_do_not_grow():
    compiled = framejit.compile(lambda t, n, items: (t + items[0], n, [t]), backend="eager")
    items = [x]
    python, process = growth(lambda: compiled(x, 1, items), 50_000, 100)
    assert python < 50_000 and process < 4 << 20


@pytest.mark.slow
def test_misses_do_not_grow():
    compiled = framejit.compile(lambda t, n: t * n, backend="eager", dynamic=False)
    numbers = iter(range(10**6))
    python, process = growth(lambda: compiled(x, next(numbers)), 5_000, 100)
    assert len(compiled.entries) == 8
    assert python < 50_000 and process < 4 << 20


@pytest.mark.slow
def test_recompiling_does_not_grow():
    """Changing shapes, with the entries thrown away again and again."""
    compiled = framejit.compile(lambda t: t * 2, backend="eager")

    def cycle() -> None:
        for n in (2, 3, 4):
            compiled(torch.ones(n))
        compiled.clear()

    python, _ = growth(cycle, 40, 10)
    assert python < 40 * SMALL, f"{python / 40:.0f} bytes for each cycle"


ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(("run", "share", "limit"), [("calls", 50, 4), ("functions", 50, 1500), ("models", 25, 4000)])
def test_a_stress_run_in_small(run, share, limit):
    """Every byte that a step of the second half leaves allocated, in a process of its own: an entry has some tens of thousands."""
    command = [sys.executable, str(ROOT / "tools" / "stress.py"), run, "--share", str(share), "--limit", str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr


FINALIZED = {
    "list": (list, [1]), "dict": (dict, {1: 2}), "tuple": (tuple, (1,)), "set": (set, {1}), "frozenset": (frozenset, {1}), "int": (int, 1), "str": (str, "a"),
    "bytes": (bytes, b"a"), "deque": (collections.deque, [1]), "OrderedDict": (collections.OrderedDict, {1: 2}), "partial": (functools.partial, len),
    "exception": (ValueError, "a"), "OSError": (OSError, "a"),
}  # fmt: skip


@pytest.mark.parametrize("base, argument", FINALIZED.values(), ids=FINALIZED)
def test_finalizers_of_instances_that_the_call_makes_and_releases_run(base, argument):
    ended = []

    class Ending(base):
        def __del__(self):
            ended.append("ended")

    def program(x, source):
        made = Ending(argument)
        del made
        copied = None if source is None else copy.copy(source)
        del copied
        return x + 1

    source = Ending(argument) if base in (list, dict, set) else None
    compiled = framejit.compile(program, backend="eager")
    for calls in (1, 2):
        compiled(torch.ones(2), source)
        assert len(ended) == calls * (1 + (source is not None))
