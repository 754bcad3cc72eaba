"""The user's surface: what compile, disable, reset and the rest take, give back and refuse, and what happens when something fails."""

from __future__ import annotations

import asyncio
import functools
import gc
import operator
import re
import sys
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from agreement import Comparison
from torch import nn

import framejit
from framejit import config
from framejit._runtime import CompiledFunction
from framejit.compiler import compile as stages
from framejit.compiler import compiled as compiled_stage
from framejit.compiler import planned as planned_stage
from framejit.driver import loader
from framejit.objects.core import abstract
from framejit.process import collector
from framejit.tracing.tracer import Tracer

x = torch.arange(6.0).reshape(2, 3)
y = torch.ones(2, 3)
eager = functools.partial(framejit.compile, backend="eager")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    framejit.reset()
    yield


def same(a, b):
    Comparison().same(a, b)
    return True


# ---- what compile takes ----


def test_a_decorator():
    @framejit.compile(backend="eager")
    def f(a, b):
        """Adds."""
        return a + b

    assert isinstance(f, CompiledFunction) and f.__name__ == "f" and f.__doc__ == "Adds." and f.__wrapped__ is f.function
    assert same(f(x, y), x + y) and same(f(b=x, a=y), x + y) and len(f.entries) == 1


def test_a_bare_decorator(monkeypatch):
    monkeypatch.setattr(config, "_base", config.from_environment({"FRAMEJIT_BACKEND": "eager", "FRAMEJIT_STRICT": "1"}))

    @framejit.compile
    def f(a):
        return a + 1

    assert same(f(x), x + 1) and len(f.entries) == 1


def plain(a):
    return torch.relu(a) + 1


class Owner:
    """Methods of each kind, decorated in each order."""

    def __init__(self, scale=2):
        self.scale = scale

    @eager
    def method(self, a):
        return a * self.scale

    @staticmethod
    @eager
    def static(a):
        return a + 1

    @eager
    @staticmethod
    def static_outside(a):
        return a + 2

    @classmethod
    @eager
    def of_class(cls, a):
        return a * len(cls.__name__)

    @eager
    @classmethod
    def of_class_outside(cls, a):
        return a * len(cls.__name__) + 1

    @property
    @eager
    def value(self):
        return torch.ones(2) * self.scale

    def uncompiled(self, a):
        return a - self.scale

    def __call__(self, a):
        return a / self.scale


def test_methods_of_each_kind():
    for _ in range(2):
        assert same(Owner(3).method(x), x * 3) and same(Owner.method(Owner(3), x), x * 3)
        assert same(Owner.static(x), x + 1) and same(Owner().static(x), x + 1)
        assert same(Owner.static_outside(x), x + 2) and same(Owner().static_outside(x), x + 2)
        assert same(Owner.of_class(x), x * 5) and same(Owner().of_class(x), x * 5)
        assert same(Owner.of_class_outside(x), x * 5 + 1) and same(Owner().of_class_outside(x), x * 5 + 1)
        assert same(Owner(4).value, torch.ones(2) * 4)
    assert framejit.statistics()["graphs"] == 6 and framejit.statistics()["fallbacks"] == 0


def test_bound_methods():
    owner = Owner(2)
    f = eager(owner.uncompiled)
    assert f.__self__ is owner and same(f(x), x - 2)
    owner.scale = 5
    assert same(f(x), x - 5) and len(f.__func__.entries) == 2
    again = eager(owner.method)
    assert same(again(x), x * 5) and again.__func__ is not Owner.__dict__["method"]
    assert same(eager([x].index)(x), torch.tensor(0).item())
    assert same(eager(x.add)(y), x + y)


def test_callable_objects_partials_and_builtins():
    owner = Owner(2)
    for target, args in [
        (owner, (x,)), (functools.partial(operator.add, x), (y,)), (functools.partial(plain), (x,)), (torch.relu, (x,)),
        (torch.add, (x, y)), (operator.mul, (x, y)),
        (torch.Tensor.sum, (x,)), (functools.lru_cache(plain), (x,)), (nn.functional.gelu, (x,)), (sum, ([x, y],)),
        (functools.partial(functools.partial(torch.add, alpha=2), x), (y,)), (torch.nn.functional.relu, (x,)), (lambda a: a + 1, (x,)),
    ]:  # fmt: skip
        f = eager(target)
        assert same(f(*args), target(*args)) and same(f(*args), target(*args)), target
        assert len(f.entries) == 1, target
    owner.scale = 8
    assert same(eager(owner)(x), x / 8)


def test_a_function_compiled_before():
    f = eager(plain)
    g = eager(f)
    assert g is not f and g.function is plain and same(g(x), plain(x)) and not f.entries
    h = eager(lambda a: f(a) + 1)
    assert same(h(x), plain(x) + 1) and not f.entries, "tracing goes through a compiled function"


def test_each_compile_has_its_own_entries():
    f, g = eager(plain), eager(plain)
    f(x)
    assert len(f.entries) == 1 and not g.entries


def test_disabled_by_argument_or_configuration():
    assert framejit.compile(plain, disable=True) is plain
    assert framejit.compile(disable=True)(plain) is plain
    f = eager(plain)
    with config.replace(disable=True):
        assert framejit.compile(plain) is plain
        assert same(f(x), plain(x)) and not f.entries
    assert same(f(x), plain(x)) and len(f.entries) == 1


@pytest.mark.parametrize("variable", ["FRAMEJIT_DISABLE", "TORCH_COMPILE_DISABLE"])
def test_disabled_by_the_environment(variable):
    assert config.from_environment({variable: "1"}).disable


def test_mode_and_options_reach_inductor():
    f = framejit.compile(plain, mode="reduce-overhead")
    assert isinstance(f, CompiledFunction)
    g = framejit.compile(plain, options={"freezing": True})
    assert isinstance(g, CompiledFunction)


def test_a_function_as_backend():
    seen = []

    def backend(gm, example_inputs):
        seen.append((gm, example_inputs))
        return gm

    f = framejit.compile(lambda a, b: a + b, backend=backend)
    assert same(f(x, y), x + y)
    [(gm, examples)] = seen
    assert isinstance(gm, torch.fx.GraphModule) and len(examples) == 2 and [n.op for n in gm.graph.nodes].count("call_function") == 1


def test_programs_without_tensors():
    f = eager(lambda n: n + 1)
    assert [f(1), f(2), f(2.5)] == [2, 3, 3.5]
    assert eager(lambda: None)() is None
    assert eager(lambda *a, **k: (a, k))(1, b=2) == ((1,), {"b": 2})


def test_wrong_arguments_raise_as_the_function_does():
    f = eager(plain)
    with pytest.raises(TypeError, match=r"plain\(\) missing 1 required positional argument: 'a'"):
        f()
    with pytest.raises(TypeError, match="unexpected keyword argument 'c'"):
        f(x, c=1)


# ---- what compile refuses ----


def generator(a):
    yield a


async def coroutine(a):
    return a


async def async_generator(a):
    yield a


class GeneratorCall:
    def __call__(self, a):
        yield a


@pytest.mark.parametrize(("target", "message"), [
    (3, "takes a function, a method, an nn.Module or another callable; got int"),
    ("plain", "got str"), ([plain], "got list"), (property(plain), "got property"),
    (int, "instances of the class int are not callable"), (Iterator, "not callable"),
])  # fmt: skip
def test_targets_that_cannot_be_compiled(target, message):
    with pytest.raises(framejit.BadArgument, match=message) as caught:
        framejit.compile(target)
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, framejit.FramejitError)
    with pytest.raises(framejit.BadArgument, match=message):
        framejit.compile(backend="eager")(target)


@pytest.mark.parametrize(("target", "name", "kind"), [
    (generator, "generator", "generator"), (coroutine, "coroutine", "coroutine"), (async_generator, "async_generator", "coroutine"),
    (staticmethod(generator), "generator", "generator"), (classmethod(coroutine), "coroutine", "coroutine"),
    (functools.partial(generator, 1), "generator", "generator"), (GeneratorCall(), "GeneratorCall.__call__", "generator"),
])  # fmt: skip
def test_generators_and_coroutines_are_given_back(target, name, kind, caplog):
    framejit.reset()
    caplog.clear()
    assert framejit.compile(target) is target and framejit.compile(backend="eager")(target) is target
    (line,) = [record.getMessage() for record in caplog.records]
    assert f"{name} runs uncompiled: FJ010 {name} is not compiled on its own" in line and "\n" not in line
    assert framejit.statistics()["graphs"] == 0
    with pytest.raises(framejit.BadArgument, match=f"{name} is a {kind} function; compile the plain functions"):
        framejit.compile(target, fullgraph=True)


def test_a_coroutine_that_compile_was_given_runs():
    async def doubled(t):
        return t * 2

    assert asyncio.run(framejit.compile(doubled)(x)).tolist() == (x * 2).tolist()


@pytest.mark.parametrize(("options", "kind", "message"), [
    ({"backend": "inducter"}, framejit.UnknownBackend, "did you mean 'inductor'"),
    ({"backend": "no such thing at all"}, framejit.UnknownBackend, "eager"),
    ({"backend": 3}, framejit.FramejitError, "backend"),
    ({"mode": "max-autotunes"}, framejit.ConfigError, "did you mean 'max-autotune'"),
    ({"options": {"freezin": True}}, framejit.UnknownOption, "did you mean 'freezing'"),
    ({"options": 3}, framejit.FramejitError, "options"),
    ({"mode": 3}, framejit.FramejitError, "mode"),
    ({"fullgraph": 1}, framejit.BadArgument, "fullgraph must be True or False; got 1"),
    ({"disable": "yes"}, framejit.BadArgument, "disable must be True or False"),
    ({"dynamic": 1}, framejit.BadArgument, "dynamic must be None, True or False; got 1"),
    ({"dynamic": "auto"}, framejit.BadArgument, "dynamic"), ({"name": 3}, framejit.BadArgument, "name must be a string; got 3"),
    ({"backends": "eager"}, framejit.BadArgument, "compile() has no option 'backends'; did you mean 'backend'"),
    ({"full_graph": True}, framejit.BadArgument, "did you mean 'fullgraph'"), ({"shapes_spec": 1}, framejit.BadArgument, "no option 'shapes_spec'"),
    ({"guard_filter": 1}, framejit.BadArgument, "known: backend, branches, disable, dynamic, fullgraph"),
    ({"model": plain}, framejit.BadArgument, "what to compile as its first argument, without a name; got model="),
])  # fmt: skip
def test_options_that_cannot_be(options, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        framejit.compile(plain, **options)
    with pytest.raises(kind, match=re.escape(message)):
        framejit.compile(**options)


def test_options_without_their_names():
    with pytest.raises(TypeError, match=r"options by name, as in backend='eager'; got 'inductor' without one"):
        framejit.compile(plain, "inductor")  # type: ignore[call-overload]


@pytest.mark.parametrize("options", [
    {"dynamic": None}, {"dynamic": False}, {"mode": None}, {"mode": "default"}, {"options": None}, {"options": {}}, {"name": "step"}, {"name": None},
    {"disable": False}, {"recompile_limit": None}, {"isolate_recompiles": False}, {"shapes_spec": None}, {"fullgraph": True},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("inside", [False, True])
def test_options_that_scripts_pass(caplog, options, inside):
    """Options that torch.compile takes are accepted by the decorator, with a target, and in compiled code."""
    def call(t):
        return framejit.compile(plain, backend="eager", **options)(t)

    call = framejit.compile(call, backend="eager") if inside else call
    assert torch.equal(call(x), plain(x)) and torch.equal(framejit.compile(backend="eager", **options)(plain)(x), plain(x))
    assert torch.equal(framejit.compile(None, backend="eager", **options)(plain)(x), plain(x)) and not caplog.records


def test_disabled_targets_stay_as_they_are():
    module = nn.Linear(3, 3)
    assert framejit.compile(plain, disable=True) is plain and framejit.compile(module, disable=True, backend="eager") is module
    assert framejit.compile(disable=True)(plain) is plain


# ---- backends that fail ----


def raising(gm, example_inputs):
    raise ZeroDivisionError("no luck")


@pytest.mark.parametrize(("backend", "message"), [
    (raising, "raised ZeroDivisionError: no luck"),
    (lambda gm, inputs: None, "returned None of type NoneType; it must return a callable"),
    (lambda gm, inputs: 3, "returned 3 of type int"),
    (lambda gm, inputs: lambda *args: 7, "tuple"),
    (lambda gm, inputs: lambda *args: (), "output"),
    (lambda gm, inputs: lambda *args: (x, x, x), "output"),
])  # fmt: skip
def test_backends_that_fail(backend, message):
    f = framejit.compile(plain, backend=backend)
    for _ in range(2):
        with pytest.raises(framejit.BackendError, match=message):
            f(x)
    good = eager(plain)
    assert same(good(x), plain(x))


def test_a_failing_backend_keeps_its_cause():
    with pytest.raises(framejit.BackendError) as caught:
        framejit.compile(plain, backend=raising)(x)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert any(frame.name == "raising" for frame in traceback.extract_tb(caught.value.__cause__.__traceback__))


# ---- where tracing stops ----


def stops(a):
    b = a + 1
    return b * len(repr(a))


def test_what_cannot_be_traced_splits_the_graph(warnings_logged):
    f = eager(stops)
    for _ in range(3):
        assert same(f(x), stops(x))
    statistics = framejit.statistics()
    assert (statistics["fallbacks"], statistics["graph_breaks"], statistics["graphs"]) == (0, 1, 2)
    [reason] = statistics["reasons"]
    assert f"{__file__}:{stops.__code__.co_firstlineno + 2}" in reason and not warnings_logged()


def stops_beside_a_stale_iterator(a):
    """A place at which a call can't be split: there is no making an iterator that will complain."""
    numbers = {1: 2}
    stale = iter(numbers)
    numbers[3] = 4
    scaled = a * len(repr(a))
    return scaled if stale else a


def test_what_cannot_be_split_runs_as_written_with_one_reason(warnings_logged):
    stops = stops_beside_a_stale_iterator
    f = eager(stops)
    for _ in range(3):
        assert same(f(x), stops(x))
    statistics = framejit.statistics()
    assert statistics["fallbacks"] == statistics["graph_breaks"] == 1 and statistics["graphs"] == 0
    [reason], [warning] = statistics["reasons"], warnings_logged()
    line = stops.__code__.co_firstlineno + 5
    assert f"{__file__}:{line}" in reason
    assert "stops_beside_a_stale_iterator runs uncompiled" in warning and f"({__file__}:{line})" in warning
    assert "__repr__()" in warning and "What to do:" in warning and "\n" not in warning
    assert len(f.entries) == 1 and f.entries[0].code is None


def test_fullgraph_raises_instead(warnings_logged):
    f = framejit.compile(lambda a: stops(a) + 1, backend="eager", fullgraph=True)
    for _ in range(2):
        with pytest.raises(framejit.Unsupported) as caught:
            f(x)
    error = caught.value
    where = error.stack[-1]
    assert (where.filename, where.lineno, where.function) == (__file__, stops.__code__.co_firstlineno + 2, "stops")
    assert where.expression == "repr(a)" and len(error.stack) == 2
    text = str(error)
    assert __file__ in text and "return b * len(repr(a))" in text and "^^^^" in text and "Why:" in text and "What to do:" in text
    assert not warnings_logged() and not f.entries


def test_an_error_of_the_program_is_raised_without_the_frames_of_the_compiler():
    with config.replace(strict=False), pytest.raises(framejit.Unsupported) as caught:
        framejit.compile(stops, backend="eager", fullgraph=True)(x)
    assert [frame.name for frame in traceback.extract_tb(caught.tb)][1:] == ["__call__"]


def test_exceptions_of_the_program_are_its_own():
    def inner(a):
        if a.shape[0] == 2:
            raise ValueError("two", a.shape[0])
        return a

    def outer(a):
        return inner(a + 1)

    for fullgraph in (False, True):
        f = framejit.compile(outer, backend="eager", fullgraph=fullgraph)
        for _ in range(2):
            with pytest.raises(ValueError, match="two") as caught:
                f(x)
            assert caught.value.args == ("two", 2)
            entries = traceback.extract_tb(caught.value.__traceback__)
            frames = [(entry.name, entry.lineno) for entry in entries if entry.filename == __file__]
            first = inner.__code__.co_firstlineno
            assert frames[-2:] == [("outer", outer.__code__.co_firstlineno + 1), ("inner", first + 2)]
    assert same(f(torch.ones(3)), torch.ones(3) + 1)


def test_errors_of_operators_are_eagers():
    def f(a, b):
        return a @ b

    compiled = eager(f)
    with pytest.raises(RuntimeError) as expected:
        f(x, y)
    for _ in range(2):
        with pytest.raises(RuntimeError) as caught:
            compiled(x, y)
        assert str(caught.value) == str(expected.value)
        assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "f"


def test_endless_recursion_is_a_recursion_error():
    def f(a):
        return f(a + 1)

    with pytest.raises(RecursionError):
        eager(f)(x)


@pytest.mark.parametrize("depth", [20, 90, 150, 900])
def test_deep_models(depth, lenient):
    m: nn.Module = nn.Linear(3, 3)
    for _ in range(depth):
        m = nn.Sequential(m, nn.ReLU())
    limit = sys.getrecursionlimit()
    fast = eager(m)
    if depth == 900:  # too deep for eager too, and under the limit of 2000 that Inductor leaves behind
        with pytest.raises(RecursionError):
            fast(x)
    else:
        assert same(fast(x), m(x)) and same(fast(x), m(x))
    assert framejit.statistics()["internal_errors"] == 0 and sys.getrecursionlimit() == limit
    found = framejit.statistics()
    assert (found["fallbacks"] + found["graph_breaks"] == 0) == (depth < 200)


@pytest.mark.only_eager("what AOTAutograd puts around a graph takes more frames than are left here")
def test_called_with_the_stack_nearly_used_up():
    f = eager(plain)

    def deep(n):
        return call(x) if n == 0 else deep(n - 1)

    call: Any = plain
    for depth in range(700, 1000, 3):
        try:
            call = plain
            deep(depth)
        except RecursionError:
            break
        call = f
        assert same(deep(depth - 12), plain(x))
        f.clear()
    assert framejit.statistics()["internal_errors"] == 0
    f.clear()
    assert same(f(x), plain(x)) and f.entries[0].code is not None


def test_too_many_versions_run_as_written(warnings_logged):
    f = eager(lambda a, n: a * n, dynamic=False)
    for n in range(12):
        assert same(f(x, n), x * n)
    assert len(f.entries) == config.current().recompile_limit
    [reason] = framejit.statistics()["reasons"]
    assert "limit" in reason and len(warnings_logged()) == 1
    with config.replace(recompile_limit=2):
        g = framejit.compile(lambda a, n: a * n, backend="eager", fullgraph=True, dynamic=False)
    assert same(g(x, 1), x) and same(g(x, 2), x * 2)
    with pytest.raises(framejit.Unsupported, match="limit"):
        g(x, 3)
    assert same(g(x, 2), x * 2)


# ---- failures of framejit itself ----


def broken(*args, **kwargs):
    raise LookupError("a bug")


PLACES = [(Tracer, "run"), (planned_stage, "plan"), (compiled_stage, "compile_graph"), (stages, "emit")]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place[1])
def test_an_internal_error_falls_back_with_one_warning(monkeypatch, lenient, warnings_logged, place):
    monkeypatch.setattr(*place, broken)
    f = eager(plain)
    for _ in range(3):
        assert same(f(x), plain(x))
    [warning] = warnings_logged()
    assert "plain" in warning and "LookupError: a bug" in warning and "FRAMEJIT_STRICT=1" in warning
    assert framejit.statistics()["internal_errors"] == framejit.statistics()["fallbacks"] == 1
    monkeypatch.undo()
    framejit.reset()
    assert same(f(x), plain(x)) and f.entries[0].code is not None


def test_an_internal_error_raises_when_strict(monkeypatch):
    monkeypatch.setattr(Tracer, "run", broken)
    f = eager(plain)
    with pytest.raises(framejit.InternalError, match="failed on plain: LookupError: a bug") as caught:
        f(x)
    assert isinstance(caught.value.__cause__, LookupError)
    monkeypatch.undo()
    assert same(f(x), plain(x)) and len(f.entries) == 1


def test_an_internal_error_while_a_call_is_resumed_is_never_silent(monkeypatch, lenient):
    def f(a):
        b = a + 1
        framejit.graph_break()
        return b * 2

    compiled = eager(f)
    monkeypatch.setattr(abstract, "unpack", broken)  # how the state is taken apart
    with pytest.raises(framejit.InternalError, match=r"failed to go on in f \(resumed at .*LookupError: a bug") as caught:
        compiled(x)
    assert isinstance(caught.value.__cause__, LookupError)
    monkeypatch.undo()
    assert same(compiled(x), f(x)) and framejit.statistics()["fallbacks"] == 0


def interrupted(*args, **kwargs):
    raise KeyboardInterrupt


def test_an_interrupt_leaves_everything_usable(monkeypatch):
    m = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def step(a):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            return m(a)

    state = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.is_autocast_cache_enabled()
    f = eager(step)
    from_backend = framejit.compile(step, backend=interrupted)
    with pytest.raises(KeyboardInterrupt):
        from_backend(x)
    for place in [(Tracer, "run_function"), (Tracer, "guard"), (planned_stage, "plan"), (stages, "emit"), (loader, "compiler")]:
        with monkeypatch.context() as patch:
            patch.setattr(*place, interrupted)
            with pytest.raises(KeyboardInterrupt):
                f(x)
        assert not f.entries
        assert (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.is_autocast_cache_enabled()) == state
        assert same(x + 1, torch.arange(6.0).reshape(2, 3) + 1)
    assert same(f(x), step(x)) and f.entries[0].code is not None
    assert all(p.grad is None for p in m.parameters())


# ---- disable ----


def test_disabled_functions():
    calls = []

    @framejit.disable
    def log(a):
        calls.append(framejit.is_compiling())
        return inner(a)

    inner = eager(lambda a: a + 1)
    f = eager(lambda a: log(a) * 2)
    assert same(f(x), (x + 1) * 2) and calls == [False] and not inner.entries
    assert "marked not to be compiled" in framejit.statistics()["reasons"][0]
    assert log.__name__ == "log"
    with pytest.raises(framejit.Unsupported, match="marked not to be compiled"):
        framejit.compile(lambda a: log(a), fullgraph=True)(x)


def test_disable_gives_the_original_of_a_compiled_function():
    f = eager(plain)
    off = framejit.disable(f)
    assert same(off(x), plain(x)) and not f.entries


def test_disable_as_decorator_with_a_reason_and_as_context():
    @framejit.disable(reason="it prints")
    def shown(a):
        return a

    assert shown(3) == 3
    f = eager(plain)
    with framejit.disable():
        assert same(f(x), plain(x)) and not f.entries
        with framejit.disable():
            f(x)
        f(x)
        assert not f.entries
    f(x)
    assert len(f.entries) == 1
    with pytest.raises(ZeroDivisionError), framejit.disable():
        raise ZeroDivisionError
    f.clear()
    f(x)
    assert len(f.entries) == 1


def test_one_context_may_be_entered_again():
    off = framejit.disable()
    f = eager(plain)
    with off, off:
        f(x)
    f(x)
    assert len(f.entries) == 1


@pytest.mark.parametrize("target", [3, "plain"])
def test_disable_refuses_what_is_not_callable(target):
    with pytest.raises(framejit.BadArgument, match=r"disable\(\) takes a callable"):
        framejit.disable(target)


# ---- the rest ----


def test_is_compiling():
    assert not framejit.is_compiling()
    f = eager(lambda a: (a + 1, framejit.is_compiling(), torch.compiler.is_compiling()))
    assert f(x)[1:] == (True, True)


def test_reset():
    f, g = eager(plain), eager(stops_beside_a_stale_iterator)
    f(x), g(x)
    assert framejit.statistics()["frames"] == 1 and framejit.statistics()["fallbacks"] == 1
    framejit.reset()
    assert not f.entries and not g.entries
    assert not any(framejit.statistics().values())
    assert same(f(x), plain(x)) and len(f.entries) == 1


def test_reset_makes_room_below_the_limit_again(warnings_logged):
    f = eager(lambda a, n: a * n, dynamic=False)
    for n in range(10):
        f(x, n)
    framejit.reset()
    for n in range(10):
        assert same(f(x, n), x * n)
    assert framejit.statistics()["recompiles"] == 7 and len(warnings_logged()) == 2


def test_statistics():
    f = eager(plain)
    f(x), f(x), f(x.double())
    assert list(framejit.statistics())[:6] == ["graphs", "graph_breaks", "recompiles", "frames", "fallbacks", "reasons"]
    counted = framejit.statistics()
    assert (counted["graphs"], counted["recompiles"], counted["frames"], counted["fallbacks"]) == (2, 1, 2, 0)
    counted["reasons"].append("mine")
    assert framejit.statistics()["reasons"] == []


def test_list_backends():
    assert {"eager", "aot_eager", "inductor"} <= set(framejit.list_backends())


def test_public_names_are_there():
    for name in framejit.__all__:
        assert getattr(framejit, name) is not None
    assert framejit.__version__


def test_positions_survive_compilation():
    def f(a):
        first = a + 1
        return [
            first,
            first * 2,
        ]

    compiled = eager(f)
    compiled(x)
    code = compiled.entries[0].code
    assert code.co_filename == __file__ and code.co_name == "f" and code.co_firstlineno == f.__code__.co_firstlineno
    assert {line for *_, line in code.co_lines() if line} <= {line for *_, line in f.__code__.co_lines() if line}


def test_nothing_is_written_into_the_users_namespaces():
    before = set(globals()), dict(vars(plain))
    f = eager(plain)
    f(x)
    gc.collect()
    assert (set(globals()), dict(vars(plain))) == before


def test_objects_that_the_program_has_frozen_stay_frozen(monkeypatch):
    """And they are counted once: to count them is to walk through all of them."""
    counted, count = [], gc.get_freeze_count
    monkeypatch.setattr(collector, "_program_freezes", False)
    monkeypatch.setattr(gc, "get_freeze_count", lambda: counted.append(count()) or counted[-1])
    gc.freeze()
    for _ in range(3):
        framejit.reset()
        assert torch.equal(eager(plain)(x), plain(x))
    assert len(counted) == 1
    assert count() >= counted[0] * 0.9
