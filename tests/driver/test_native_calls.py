"""Functions of the user's that native code calls at a graph break: which of them are compiled, that they do what eager does, and their lifetime."""

from __future__ import annotations

import functools
import gc
import math
import re
import sys
import threading
import traceback
import tracemalloc
import types
import unittest.mock
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from stories import same_story
from together import together
from torch import nn

import framejit
from framejit import _runtime
from framejit._runtime import CompiledFunction
from framejit.driver import upcalls
from framejit.objects.core import registry

x = torch.arange(1.0, 5.0)
eager = functools.partial(framejit.compile, backend="eager")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    framejit.reset()
    yield


class Counting:
    """A backend that runs graphs as they are and counts the operations that it has run."""

    def __init__(self) -> None:
        self.operations = 0
        self.graphs = 0

    def __call__(self, gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        size = sum(node.op in ("call_function", "call_method") for node in gm.graph.nodes)
        self.graphs += 1

        def run(*args: Any) -> Any:
            assert not _runtime.hook_installed(), "no region inside a graph"
            self.operations += size
            return gm.forward(*args)

        return run


def operations(fn: Callable[..., Any], *args: Any) -> int:
    """Return the number of operations that a compiled call runs in graphs once everything is compiled; check that results are eager's."""
    backend = Counting()
    compiled = framejit.compile(fn, backend=backend)
    for _ in range(3):
        backend.operations = 0
        got = compiled(*args)
        assert torch.equal(got, fn(*args))
    count, graphs = backend.operations, backend.graphs
    compiled(*args)
    assert backend.graphs == graphs
    return count


def natively_compiled(compiled: Any) -> list[str]:
    """The names of the functions that are compiled because native code has called them in a compiled one."""
    return sorted(native.function.__qualname__.rpartition(".")[2] for native in compiled.upcalls.compiled if native.entries)


def breaks(a: torch.Tensor) -> torch.Tensor:
    """Two operations, with a break between them."""
    b = a.sin()
    framejit.graph_break()
    return b.cos()


# ---- who calls ----


def total(v: torch.Tensor) -> float:
    return (v * 2).sum().item()


def by_sorted(a):
    first, second = sorted([a.sin(), a.cos()], key=total)
    return first + second * 2


def by_list_sort(a):
    values = [a.sin(), a.cos(), a * 2]
    values.sort(key=lambda v: v.sum().item())
    return values[0] - values[2]


def by_reduce(a):
    return functools.reduce(lambda left, right: breaks(left) + right, [a, a + 1, a + 2])


digit = re.compile(r"\d")


def by_re(a):
    found = [a]

    def multiply(n):
        found[0] = found[0] * n

    def replace(match):
        multiply(int(match.group()))
        return ""

    digit.sub(replace, "a1b2c3")
    return found[0] + 1


class Measured:
    """An object whose property, constructor and operators break."""

    def __init__(self, a):
        self.a = breaks(a)

    @property
    def size(self):
        return breaks(self.a)

    def __add__(self, other):
        return breaks(self.a) + other

    def __getitem__(self, index):
        return breaks(self.a)[index]

    def __call__(self, a):
        return breaks(a) * self.a

    def __lt__(self, other):
        return bool((self.a.sum() < other.a.sum()).item())


def by_property(a):
    return Measured(a).size + 1


def by_operators(a):
    measured = Measured(a)
    return (measured + 1) + measured[0] + measured(a)


def by_comparison(a):
    smallest = min([Measured(a), Measured(a * 2), Measured(a / 2)])
    return smallest.a


def by_generator(a):
    return sum(breaks(a + i) for i in range(3)) + 1


def by_generator_function(a):
    def produce():
        for i in range(3):
            framejit.graph_break()
            yield breaks(a * i)

    b = a
    for value in produce():
        b = b + value
    return b


class Scaled(nn.Module):
    """A module with a break in its forward."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, a):
        return breaks(a) * self.scale


scaled = Scaled()


def by_module_called_from_c(a):
    values = sorted([a, a + 1], key=lambda v: scaled(v).sum().item())
    return values[0] * 2


def by_skipped_frame(a):
    def skips(b):
        framejit.skip_frame("as it is")
        return breaks(b) + 1

    return skips(a * 3)


@framejit.disable(recursive=False)
def disabled_alone(b):
    return breaks(b) + 1


@framejit.disable
def disabled(b):
    return breaks(b) + 1


def by_disabled_alone(a):
    return disabled_alone(a) * 2


def by_disabled(a):
    return disabled(a) * 2


class OfTorch(torch.Tensor):
    """A tensor whose operations call back."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("fn", "in_graphs"),
    [
        (by_sorted, 8),  # all but .item()
        (by_list_sort, 7),
        (by_reduce, 8),  # all but the additions of the first operands
        (by_re, 4),  # the callback gets a new match each time: what it calls is compiled
        (by_property, 5),
        (by_operators, 13),
        (by_comparison, 14),
        (by_generator, 7),  # what the generator's own frame does is not in a graph
        (by_generator_function, 9),
        (by_module_called_from_c, 10),
        (by_skipped_frame, 3),  # not the addition in the skipped frame
        (by_disabled_alone, 3),
        (by_disabled, 1),
    ],
)
def test_what_native_code_calls_runs_in_graphs(fn, in_graphs):
    assert operations(fn, x) == in_graphs
    framejit.reset()
    counts = same_story(fn, (x,))
    assert not counts["internal_errors"]


# ---- which ones ----


def test_explain_and_statistics_tell_of_them():
    def f(a):
        return sorted([a, a + 1], key=lambda v: len(repr(v.sum())))[0]

    report = framejit.explain(f, backend="eager")(x)
    assert report.operations == [1, 1] and [len(stop.text) > 0 for stop in report.breaks] == [True, True]
    assert any("<lambda>" in entry.function for entry in report.entries)
    statistics = framejit.statistics()
    assert (statistics["graphs"], statistics["graph_breaks"], statistics["fallbacks"]) == (2, 2, 0)


def test_fullgraph_functions_that_allow_breaks():
    def f(a):
        with framejit.error_on_graph_break(False):
            values = sorted([a, a + 1], key=total)
        return values[0] * 2

    compiled = eager(f, fullgraph=True)
    assert torch.equal(compiled(x), f(x))
    assert natively_compiled(compiled) == ["total"]


def test_upcalls_of_frames_that_run_as_written_are_compiled():
    def whole(a):
        framejit.skip_frame("as it is")
        return breaks(a) + 1

    compiled = eager(whole)
    for _ in range(2):
        assert torch.equal(compiled(x), whole(x))
    assert [entry.compiles_upcalls for entry in compiled.entries] == [True] and natively_compiled(compiled) == ["breaks"]

    def fails_at_the_end(a):
        raise KeyError(total(a))

    compiled = eager(fails_at_the_end)
    for count in (0, 1, 1):  # what is raised only once isn't worth a graph
        with pytest.raises(KeyError):
            compiled(x)
        assert (len(natively_compiled(compiled)), compiled.entries[0].code) == (count, None)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_a_frame_calls_is_compiled_that_framejit_fails_on(backend, monkeypatch, lenient):
    def fails(vm, *args):
        raise NotImplementedError("an error of framejit's own")

    monkeypatch.setattr(registry.meaning_to_fill(math.isqrt), "model", fails)

    def program(a, n):
        return total(a) * math.isqrt(n) + total(a + 1)

    compiled = framejit.compile(program, backend=backend)
    for number in (4, 9, 16):
        assert compiled(x, number) == program(x, number)
    counts = framejit.statistics()
    assert counts["internal_errors"] == 1 and counts["graphs"] and set(natively_compiled(compiled)) == {"total"}


@pytest.mark.parametrize("region", [False, True])
def test_an_error_of_framejits_own_is_raised_where_the_program_wants_one_piece(region, monkeypatch, lenient):
    def fails(vm, *args):
        raise NotImplementedError("an error of framejit's own")

    monkeypatch.setattr(registry.meaning_to_fill(math.isqrt), "model", fails)
    compiled = eager(lambda a, n: a * math.isqrt(n), fullgraph=not region)
    with pytest.raises(framejit.InternalError, match="NotImplementedError: an error of framejit's own"), framejit.error_on_graph_break(True):
        compiled(x, 4)


def strict_total(v):
    with framejit.error_on_graph_break(True):
        return breaks(v).sum().item()


def test_errors_that_a_native_call_asks_for():
    compiled = eager(lambda a: sorted([a, a + 1], key=strict_total)[0])
    with pytest.raises(framejit.Unsupported) as caught:
        compiled(x)
    assert caught.value.stack[-1].function == "breaks"


def test_the_peers_modules_and_generators_are_left_alone():
    """Code of torch, of the standard library and of framejit, generators' frames and bodies of modules and classes."""
    ran = []

    def f(a):
        b = a.sin()
        framejit.graph_break()
        ran.append(len(list(nn.Linear(2, 2).named_parameters())))
        exec("ran.append(x.sum())", {"ran": ran, "x": b})
        made = type("Made", (), {"total": b.sum()})
        return b.cos() + made.total

    compiled = eager(f)
    for _ in range(2):
        assert torch.equal(compiled(x), f(x))
    for native in compiled.upcalls.compiled:
        assert upcalls.kind_of(native.function) is None
        assert native.function.__code__.co_filename == __file__


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (nn.Linear.forward, _runtime.NEVER),
        (torch.optim.SGD.step, _runtime.NEVER),
        (torch.compile, _runtime.OPAQUE),
        (torch.fx.symbolic_trace, _runtime.OPAQUE),
        (torch.func.vmap, _runtime.OPAQUE),
        (re.compile, _runtime.NEVER),
        (framejit.compile, _runtime.OPAQUE),
        (framejit.error_on_graph_break.__call__, _runtime.NEVER),
        (disabled, _runtime.NEVER),
        (torch.compiler.disable(lambda: 0, recursive=False), _runtime.OPAQUE),
        (torch.fx.symbolic_trace(lambda a: a + 1).forward.__func__, _runtime.NEVER),
        (OfTorch.__torch_function__.__func__, _runtime.OPAQUE),
        (breaks, None),
        (pytest.raises, _runtime.NEVER),
    ],
)
def test_kinds(function, kind):
    assert upcalls.kind_of(function) == kind


def test_functions_of_other_namespaces_do_not_share_entries():
    code = compile("def key(v):\n    return (v * factor).sum().item()", "<made>", "exec")
    keys = []
    for factor in (1, -1):
        namespace = {"factor": factor}
        exec(code, namespace)
        keys.append(namespace["key"])
    assert keys[0].__code__ is keys[1].__code__
    compiled = eager(lambda a, key: sorted([a, a + 1, a - 1], key=key)[0])
    for _ in range(2):
        for key in keys:
            assert torch.equal(compiled(x, key), sorted([x, x + 1, x - 1], key=key)[0])


def test_functions_made_anew_share_entries():
    def f(a, factor):
        scale = a * factor
        return sorted([a, a + 1], key=lambda v: (v * scale).sum().item())[0]

    compiled = eager(f)
    for number in range(6):
        framejit.reset() if number == 1 else None
        assert torch.equal(compiled(x, 1.0), f(x, 1.0))
    native = next(iter(compiled.upcalls.compiled))
    assert len(native.entries) == 1 and native.entries[0].hits == 10


def test_cells_are_guarded():
    def make(factor):
        return lambda v: (v * factor).sum().item()

    compiled = eager(lambda a, key: sorted([a, a + 1], key=key)[0])
    for _ in range(2):
        for factor in (1, -1, 2):
            key = make(factor)
            assert torch.equal(compiled(x, key), sorted([x, x + 1], key=key)[0])


def test_without_tensors_nothing_is_compiled():
    calls = []

    def plain(pair):
        calls.append(pair)
        return pair[1]

    def f(a):
        b = a.sin()
        values = sorted(list(zip(range(50), reversed(range(50)))), key=plain if b.sum() > -100 else None)
        return b.cos() + values[0][0]

    compiled = eager(f)
    assert torch.equal(compiled(x), f(x))
    assert not compiled.upcalls.compiled
    assert framejit.statistics()["graphs"] == 2


def test_functions_without_operations_run_as_written():
    """Those that get tensors, but do nothing with them that a graph could: they are tried a few times."""
    seen = []

    def rank(v):
        seen.append(sys._getframe(0).f_code)
        return len(seen)

    def size(v):
        return v.shape[0] * v.dim()

    def f(a, key):
        framejit.graph_break()
        return sorted([a, a + 1], key=key)[0] + a.sum().item()

    for key, number in ((size, 10), (rank, 3)):
        framejit.reset()
        compiled = eager(f)
        for i in range(number):
            assert torch.equal(compiled(x, key), f(x, key))
        assert all(entry.code is None for native in compiled.upcalls.compiled for entry in native.entries if native.function.__name__ == "size")
        assert framejit.statistics()["fallbacks"] == 0


def test_many_kinds_without_operations_end_it():
    def size(v):
        return v.shape[0]

    def run(values):
        return sorted(values, key=size)[0]

    compiled = eager(lambda a, values: run(values) + a.sum().item())
    run_disabled = framejit.disable(recursive=False)(run)
    compiled = framejit.compile(lambda a, values: run_disabled(values) + a, backend="eager", dynamic=False)
    for n in range(1, 12):
        values = [torch.ones(n), torch.ones(n + 1)]
        compiled(torch.ones(1), values)
    native = next(native for native in compiled.upcalls.compiled if native.function.__name__ == "size")
    assert not native.enabled and len(native.entries) <= upcalls.MOST_IDLE
    framejit.reset()
    assert native.enabled


# ---- what it must not disturb ----


def fails(v):
    b = v * 2
    if b.sum().item() > 10:
        raise ValueError("too large")
    return 0


def test_exceptions():
    def uncaught(a):
        return sorted([a, a * 100], key=fails)

    def caught(a):
        try:
            return sorted([a * 100, a], key=fails)[0]
        except ValueError as error:
            return a + len(error.args)

    same_story(uncaught, (x,))
    same_story(caught, (x,))
    compiled = eager(uncaught)
    for _ in range(3):
        with pytest.raises(ValueError, match="too large") as error:
            compiled(x)
        names = [entry.name.partition(" (resumed")[0] for entry in traceback.extract_tb(error.value.__traceback__)]
        assert names[-2:] == ["uncaught", "fails"]
        assert not _runtime.hook_installed()


def test_interrupts_leave_the_hook_down():
    def key(v):
        v = v * 2
        raise KeyboardInterrupt

    compiled = eager(lambda a: sorted([a, a + 1], key=key))
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            compiled(x)
        assert not _runtime.hook_installed()

    def failing(gm, inputs):
        if len(inputs) == 2:
            raise KeyboardInterrupt
        return gm

    compiled = framejit.compile(lambda a, s: sorted([a, a + 1], key=lambda v: (v * s).sum().item()), backend=failing)
    with pytest.raises(KeyboardInterrupt):
        compiled(x, x)
    assert not _runtime.hook_installed() and not _runtime.is_thread_compiling()


def test_recursion():
    def depth(v, n):
        framejit.graph_break()
        return v if n == 0 else functools.reduce(lambda left, right: depth(right, n - 1) + 1, [v, v])

    for n in (5, 60):
        assert torch.equal(eager(depth)(x, n), depth(x, n))


@pytest.mark.usefixtures("own_evaluator")
@pytest.mark.slow
@pytest.mark.parametrize("compiles", [True, False])
def test_recursion_is_as_deep_as_without_a_region(compiles):
    def down(n, v):
        return 0 if n == 0 else 1 + down(n - 1, v)

    def f(a, n):
        framejit.graph_break()
        sorted([n, n], key=lambda m: down(m, a if compiles else None))
        return a + 1

    compiled = eager(f)
    limit = sys.getrecursionlimit()

    def deepest(fn):
        low, high = 1, limit
        while high - low > 1:
            middle = (low + high) // 2
            try:
                fn(x, middle)
                low = middle
            except RecursionError:
                high = middle
        return low

    assert abs(deepest(compiled) - deepest(f)) <= 12


@pytest.mark.usefixtures("own_evaluator")
def test_deep_recursion_under_a_raised_limit():
    def down(n):
        return 0 if n == 0 else 1 + down(n - 1)

    def f(a, n):
        framejit.graph_break()
        return a + max([n], key=down)

    before = sys.getrecursionlimit()
    sys.setrecursionlimit(200_000)
    try:
        assert torch.equal(eager(f)(x, 100_000), x + 100_000)
    finally:
        sys.setrecursionlimit(before)


def test_tracers_see_functions_as_written():
    compiled = eager(by_sorted)
    compiled(x)
    events = []

    def tracer(frame, event, arg):
        if frame.f_code is total.__code__:
            events.append((event, frame.f_lineno))
        return tracer

    sys.settrace(tracer)
    try:
        compiled(x)
    finally:
        sys.settrace(None)
    assert [event for event, _ in events] == ["call", "line", "return"] * 2


@pytest.mark.parametrize("switch", [sys.settrace, sys.setprofile], ids=["trace", "profile"])
def test_tracers_run_as_written(switch):
    sizes = []

    def tracer(frame, event, arg):
        sizes.append((x + 1).numel())
        return tracer

    compiled = eager(by_sorted)
    compiled(x)
    for _ in range(3):
        switch(tracer)
        try:
            compiled(x)
        finally:
            switch(None)
    assert sizes and natively_compiled(compiled) == ["total"]


def test_frames_are_the_programs_own():
    names = []

    def key(v):
        b = v * 2
        names.append([frame.name.partition(" (resumed")[0] for frame in traceback.extract_stack()[-3:]])
        return b.sum().item()

    def f(a):
        return sorted([a, a + 1], key=key)[0]

    def outer(fn):
        return fn(x)

    outer(f)
    expected = names.pop()
    names.clear()
    compiled = eager(f)
    for _ in range(3):
        outer(compiled)
    assert names == [expected] * 6


def test_threads():
    compiled = eager(by_sorted)
    expected = by_sorted(x)
    ended: list[None] = []
    other = []

    def plain(n):
        return n if n < 2 else plain(n - 1) + 1

    def beside():
        while len(ended) < 2:
            other.append(plain(600))

    def work():
        try:
            for _ in range(200):
                assert torch.equal(compiled(x), expected)
        finally:
            ended.append(None)

    together(work, work, beside)
    assert set(other) == {600}


def test_disabled_inside():
    def f(a):
        framejit.graph_break()
        with framejit.disable():
            value = sorted([a, a + 1], key=total)[0]
        return value * 2

    compiled = eager(f)
    for _ in range(2):
        assert torch.equal(compiled(x), f(x))
    assert natively_compiled(compiled) == []


def test_torch_compile_inside_a_region():
    inner = torch.compile(lambda v: v * 2 + 1, backend="eager")

    @framejit.disable(recursive=False)
    def run(v):
        return inner(v) + 1

    def f(a):
        return run(a.sin()) + 1

    compiled = eager(f)
    for _ in range(2):
        assert torch.equal(compiled(x), f(x))
    torch.compiler.reset()


def test_hooks_of_autograd():
    """Functions that the engine calls: hooks of tensors, and a custom function's backward."""
    weight = torch.ones(4, requires_grad=True)

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * 2

        @staticmethod
        def backward(ctx, grad):
            (a,) = ctx.saved_tensors
            return grad * 2 + a * 0

    def f(a):
        weight.grad = None
        b = Double.apply(a * weight)
        b.register_hook(lambda grad: grad * 3 + 1)
        b.sum().backward()
        return weight.grad * 2

    compiled = eager(f)
    for _ in range(3):
        assert torch.equal(compiled(x), f(x))


def test_a_backward_pass_in_a_region():
    """Functions that run inside the backend, to compile and run the backward pass, aren't compiled by framejit themselves."""
    weight = torch.ones(4, requires_grad=True)

    def f(a):
        weight.grad = None
        (a * weight).sin().sum().backward()
        return weight.grad * 2

    compiled = framejit.compile(f, backend="aot_eager")
    for _ in range(2):
        assert torch.allclose(compiled(x), f(x))
    assert all(native.function.__code__.co_filename == __file__ for native in compiled.upcalls.compiled)


# ---- lifetime ----


def test_what_native_calls_hold_is_freed():
    gone = []

    def f(a):
        scale = torch.ones(4) * a
        framejit.graph_break()
        gone.append(weakref.ref(scale))

        def key(v):
            return (v * scale).sum().item()

        gone.append(weakref.ref(key))
        result = sorted([a, a + 1], key=key)[0]
        return result * 1

    compiled = eager(f)
    for _ in range(3):
        compiled(x)
    gc.collect()
    assert natively_compiled(compiled)
    assert [reference() for reference in gone] == [None] * len(gone)


def test_what_is_compiled_goes_with_what_was_compiled_for_the_function():
    compiled = eager(by_sorted)
    compiled(x)
    natively = [weakref.ref(native) for native in compiled.upcalls.compiled]
    entries = [weakref.ref(entry) for native in compiled.upcalls.compiled for entry in native.entries]
    assert natively and entries
    del compiled
    framejit.reset()  # what waits for the next `compile` of the function
    gc.collect()
    assert [reference() for reference in (*natively, *entries)] == [None] * (len(natively) + len(entries))
    other = eager(by_sorted)
    assert torch.equal(other(x), by_sorted(x)) and natively_compiled(other) == ["total"]


def test_code_made_at_run_time_is_dropped(monkeypatch):
    monkeypatch.setattr(upcalls, "MOST", 4)
    codes = []

    def key_number(n):
        namespace = {}
        exec(f"def key(v):\n    return (v * {n}).sum().item()", namespace)
        codes.append(weakref.ref(namespace["key"].__code__))
        return namespace["key"]

    compiled = eager(lambda a, key: sorted([a, a + 1], key=key)[0])
    compiled(x, total)
    for n in range(60):
        key = key_number(n)
        for _ in range(2):
            assert torch.equal(compiled(x, key), sorted([x, x + 1], key=key)[0])
            compiled(x, total)
        del key
        assert len(compiled.upcalls.compiled) <= 4
    gc.collect()
    assert sum(code() is not None for code in codes) <= 8 + 4
    assert "total" in natively_compiled(compiled), "what is in use stays"


def test_calls_do_not_grow():
    def f(a):
        return sorted([a, a + 1], key=lambda v: (v * a).sum().item())[0]

    compiled = eager(f)
    for _ in range(100):
        compiled(x)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(2000):
            compiled(x)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()


def test_regions_that_come_to_nothing_end(monkeypatch):
    """Native code that calls many functions is as fast as without a hook, once it has shown that none of them is worth compiling."""
    seen = []

    def small(n):
        if n % 1000 == 0:
            seen.append(_runtime.hook_installed())
        return n

    def f(a):
        b = a.sin()
        framejit.graph_break()
        return b + max(map(small, range(150_001)))

    disabled_alone_f = framejit.disable(recursive=False)(lambda: max(map(small, range(150_001))))
    compiled = eager(lambda a: a.sin() + disabled_alone_f())
    compiled(x)
    assert seen[0] and not seen[-1] and len(seen) == 151
    seen.clear()
    compiled(x)
    assert not any(seen)


# ---- the native side ----


def test_marks_and_answers():
    with pytest.raises(ValueError, match="NEVER or OPAQUE"):
        _runtime.mark_code(breaks.__code__, 7)
    with pytest.raises(TypeError):
        _runtime.mark_code(breaks, _runtime.NEVER)
    compiled = eager(by_sorted)
    assert isinstance(compiled.upcalls, upcalls.Upcalls)
    compiled.upcalls = lambda function, args: "what"
    with pytest.raises(TypeError, match="a new CompiledFunction, NEVER, OPAQUE or None, not str"):
        compiled(x)
    with pytest.raises(TypeError, match="callable or None"):
        compiled.upcalls = 3
    compiled.upcalls = None
    assert compiled.upcalls is None and torch.equal(compiled(x), by_sorted(x))
    assert isinstance(compiled, CompiledFunction)


def test_an_error_in_the_decision_is_raised():
    compiled = eager(by_sorted)

    def decide(function, args):
        raise KeyError(function.__name__)

    compiled.upcalls = decide
    for _ in range(2):
        with pytest.raises(KeyError, match="total"):
            compiled(x)
    assert not _runtime.hook_installed()


def test_looking_for_tensors_runs_no_code_of_the_users():
    class Hostile:
        def __getattribute__(self, name):
            raise AssertionError(name)

        def __iter__(self):
            raise AssertionError

        def __len__(self):
            raise AssertionError

    class Slots:
        __slots__ = ("a",)

    class Items(list):
        def __getitem__(self, index):
            raise AssertionError

    class Mapping(dict):
        def values(self):
            raise AssertionError

    def function(a):
        return missing + nothing  # noqa: F821

    for value in (Hostile(), Slots(), Items([1]), Mapping(a=1), types.SimpleNamespace(b=2), 3, None, [[[[x]]]], Hostile, len):
        assert not upcalls.reaches_tensors(function, (value,))
    for value in (x, [1, x], (0, [x]), {"a": x}, Items([x]), Mapping(a=x), types.SimpleNamespace(b=x), scaled, [Measured(x)], nn.Parameter(x)):
        assert upcalls.reaches_tensors(function, (value,))
    assert upcalls.reaches_tensors(lambda: torch.ones(2), ())
    assert upcalls.reaches_tensors(lambda: scaled, ())
    held, empty = types.CellType(x), types.CellType()
    for cell in (held, empty):
        by_cell = types.FunctionType((lambda: cell).__code__, {}, "by_cell", None, (cell,))
        assert upcalls.reaches_tensors(by_cell, ()) == (cell is held)


def test_a_frame_that_torchs_hook_hands_back_is_not_compiled_again(lenient):
    """Torch's hook, set while ours is installed, has ours as the one before it, which then has torch's as the one before it."""

    @framejit.compile(backend="eager")
    def waiting(a):
        framejit.skip_frame("the hook stays installed while this runs")
        ready.set()
        go.wait()
        return a

    def fails(vm, *args):
        raise NotImplementedError("an error of framejit's own")

    set_eval_frame = torch._C._dynamo.eval_frame.set_eval_frame
    ready, go = threading.Event(), threading.Event()
    thread = threading.Thread(target=waiting, args=(torch.ones(2),))
    thread.start()
    ready.wait()
    before = set_eval_frame(False)
    try:
        with unittest.mock.patch.object(registry.meaning_to_fill(math.isqrt), "model", fails):
            framejit.reset()
            framejit.compile(lambda a: a * math.isqrt(4), backend="eager")(torch.ones(2))
            assert framejit.statistics()["internal_errors"] == 1
    finally:
        set_eval_frame(before)
        go.set()
        thread.join()
