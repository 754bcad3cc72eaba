"""error_on_graph_break, graph_break, skip_frame, disable, disable_nested_graph_breaks, nested compile; torch's own directives."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator

import pytest
import torch
from torch import nn

import framejit
from framejit._runtime import CompiledFunction
from framejit.said import directives

x = torch.arange(3.0)
eager = functools.partial(framejit.compile, backend="eager")
strictly = functools.partial(framejit.compile, backend="eager", fullgraph=True)
dynamo = torch._dynamo


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    framejit.reset()
    yield
    assert directives.CURRENT.get() == (), "a region was left behind"
    assert not dynamo.utils._error_on_graph_break


def counts(fn, *args, calls=2):
    """Graphs, breaks and fallbacks of a few calls of a compiled function, which agree with eager's."""
    framejit.reset()
    for _ in range(calls):
        result = fn(*args)
    statistics = framejit.statistics()
    assert torch.equal(result, fn.function(*args))
    return statistics["graphs"], statistics["graph_breaks"], statistics["fallbacks"]


def helper(a):
    b = a + 1
    framejit.graph_break("in the middle")
    return b * 2


def caller(a):
    return helper(a * 3) + 1


# ---- graph_break and skip_frame ----


def test_a_break_that_is_asked_for():
    assert counts(eager(caller), x) == (2, 1, 0)
    assert "in the middle" in framejit.statistics()["reasons"][0]
    assert framejit.graph_break() is None and framejit.graph_break("outside") is None
    with pytest.raises(framejit.Unsupported, match="FJ008 .*in the middle"):
        strictly(caller)(x)


def skipped(a):
    b = a + 1
    framejit.skip_frame("as it is")
    return b * 2


def test_a_skipped_frame_runs_as_written(caplog):
    assert counts(eager(skipped), x) == (0, 1, 1)
    assert "as it is" in framejit.statistics()["reasons"][0]
    assert not caplog.records, "it was asked for: no warning"


def test_the_caller_of_a_skipped_frame_is_compiled_around_it():
    assert counts(eager(lambda a: skipped(a * 3) + 1), x) == (2, 1, 0)
    assert counts(eager(lambda a: caller_of_skipped(a) * 2), x) == (2, 1, 0)
    with pytest.raises(framejit.Unsupported, match="FJ024 .*as it is"):
        strictly(lambda a: skipped(a))(x)


def caller_of_skipped(a):
    return skipped(a + 5) - 1


# ---- error_on_graph_break ----


@framejit.error_on_graph_break(True)
def strict_helper(a):
    """Strict."""
    return helper(a)


def test_errors_in_a_decorated_function():
    assert strict_helper.__name__ == "strict_helper" and strict_helper.__doc__ == "Strict."
    assert torch.equal(strict_helper(x), helper(x))
    for f in (strict_helper, lambda a: strict_helper(a) + 1):
        with pytest.raises(framejit.Unsupported, match="in the middle") as caught:
            eager(f)(x)
        assert [frame.function for frame in caught.value.stack][-2:] == ["strict_helper", "helper"]


def test_errors_in_a_block():
    def f(a):
        b = helper(a)
        with framejit.error_on_graph_break(True):
            b = b * 2
        c = helper(b)
        with framejit.error_on_graph_break(True):
            return chosen[0](c)

    chosen = [lambda a: a - 1]
    assert counts(eager(f), x) == (3, 2, 0)
    chosen[0] = helper
    with pytest.raises(framejit.Unsupported) as caught:
        eager(f)(x)
    assert caught.value.stack[0].lineno == f.__code__.co_firstlineno + 6


def test_errors_around_compiled_calls():
    f = eager(caller)
    f(x)
    with framejit.error_on_graph_break(True):
        with pytest.raises(framejit.Unsupported):
            f(x)
        with framejit.error_on_graph_break(False):
            assert torch.equal(f(x), caller(x))
        with pytest.raises(framejit.Unsupported):
            f(x)
    assert torch.equal(f(x), caller(x))
    around = framejit.error_on_graph_break(True)(f)
    with pytest.raises(framejit.Unsupported):
        around(x)


def test_a_function_without_breaks_does_not_depend_on_it():
    f = eager(lambda a: a + 1)
    f(x)
    with framejit.error_on_graph_break(True):
        f(x)
    assert len(f.entries) == 1


def test_breaks_are_allowed_inside_fullgraph():
    def f(a):
        with framejit.error_on_graph_break(False):
            b = helper(a)
        return b + 1

    def g(a):
        b = f(a)
        return helper(b)

    assert counts(strictly(f), x) == (2, 1, 0)
    assert counts(strictly(lambda a: f(a) * 2), x) == (2, 1, 0)
    with pytest.raises(framejit.Unsupported) as caught:
        strictly(g)(x)
    assert caught.value.stack[0].lineno == g.__code__.co_firstlineno + 2


def test_fullgraph_is_for_the_whole_call_whatever_is_said_around_it():
    with framejit.error_on_graph_break(False), pytest.raises(framejit.Unsupported):
        strictly(caller)(x)


reused = framejit.error_on_graph_break(False)


def test_regions_nest_and_are_reused():
    def f(a):
        with reused:
            b = helper(a)
            with framejit.error_on_graph_break(True):
                b = b + 1
                with reused:
                    b = helper(b)
                b = b * 3
            return helper(b)

    assert counts(strictly(f), x) == (4, 3, 0)


def test_a_region_is_left_by_exceptions():
    def f(a):
        with framejit.error_on_graph_break(False):
            b = helper(a)
            raise KeyError(b.shape[0])

    def g(a):
        try:
            f(a)
        except KeyError:
            return helper(a)

    with pytest.raises(KeyError):
        strictly(f)(x)
    assert directives.CURRENT.get() == ()
    with pytest.raises(framejit.Unsupported):
        strictly(g)(x)
    assert counts(eager(g), x)[1] == 2


def test_a_region_that_ends_in_another_function():
    def enter(region):
        region.__enter__()

    def f(a):
        region = framejit.error_on_graph_break(False)
        enter(region)
        b = helper(a)
        region.__exit__(None, None, None)
        return b

    assert counts(strictly(f), x) == (2, 1, 0)


def test_each_thread_has_its_own():
    f, found = eager(caller), []

    def run():
        found.append(f(x))

    with framejit.error_on_graph_break(True):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert torch.equal(found[0], caller(x))


def test_modules_are_decorated():
    class Breaks(nn.Module):
        def forward(self, a):
            return helper(a)

    strict = framejit.error_on_graph_break(True)(Breaks())
    assert isinstance(strict, Breaks)
    with pytest.raises(framejit.Unsupported):
        eager(lambda a: strict(a))(x)


@pytest.mark.parametrize("setting", [1, None, "yes", helper])
def test_the_setting_is_a_bool(setting):
    with pytest.raises(framejit.BadArgument, match="True or False"):
        framejit.error_on_graph_break(setting)
    with pytest.raises(framejit.BadArgument, match="decorates a callable; got int"):
        framejit.error_on_graph_break(True)(3)


# ---- errors after a break ----


class Noted:
    """A context manager that notes how it is left."""

    def __init__(self, log, name):
        self.log, self.name = log, name

    def __enter__(self):
        self.log.append(self.name)

    def __exit__(self, kind, error, trace):
        self.log.append((self.name, kind and kind.__name__))


def fails_inside(a, log):
    with Noted(log, "inner"):
        framejit.graph_break("allowed")
        b = a * 2
        with framejit.error_on_graph_break(True):
            framejit.graph_break("refused")
    return b


def fails_outside(a, log):
    with torch.no_grad(), Noted(log, "outer"):
        try:
            return fails_inside(a + 1, log)
        finally:
            log.append("finally")


@framejit.disable
def raising():
    raise LookupError


def fails_in_handler(a, log):
    with Noted(log, "block"):
        try:
            raising()
        except LookupError:
            log.append("handled")
        with framejit.error_on_graph_break(True):
            framejit.graph_break("refused")
    return a


def test_an_error_behind_a_break_leaves_the_blocks_that_the_call_is_in():
    for _ in range(2):
        log: list[object] = []
        with pytest.raises(framejit.Unsupported, match="refused"):
            eager(fails_outside)(x, log)
        assert log == ["outer", "inner", ("inner", "Unsupported"), "finally", ("outer", "Unsupported")]
        assert torch.is_grad_enabled()


def test_an_error_behind_an_exception_of_the_native_instruction():
    log: list[object] = []
    with pytest.raises(framejit.Unsupported, match="refused"):
        eager(fails_in_handler)(x, log)
    assert log[0] == "block" and log[-1] == ("block", "Unsupported")


def test_a_program_may_handle_the_error():
    def f(a, log):
        try:
            return fails_outside(a, log)
        except framejit.Unsupported:
            return a * 7

    compiled = eager(f)
    for _ in range(3):
        assert torch.equal(compiled(x, []), x * 7)


def test_an_interrupt_behind_a_break_leaves_modes_as_they_were():
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        if len(graphs) == 2:
            raise KeyboardInterrupt
        return gm

    def f(a):
        with torch.no_grad():
            b = a + 1
            framejit.graph_break()
            return b * 2

    compiled = framejit.compile(f, backend=backend)
    with pytest.raises(KeyboardInterrupt):
        compiled(x)
    assert torch.is_grad_enabled()
    assert torch.equal(compiled(x), f(x))


@pytest.mark.parametrize("operations", [1, 60, 700, 6000])
def test_an_error_behind_a_break_of_a_function_of_any_length(operations):
    body = "".join(f"        b = b + {i}\n" for i in range(operations))
    source = (
        "def f(n, log):\n    counter = [0]\n    def count():\n        counter[0] += 1\n    try:\n        framejit.graph_break()\n        b = n\n"
        f"{body}        with framejit.error_on_graph_break(True):\n            framejit.graph_break('late')\n"
        "    finally:\n        count()\n        log.append(counter[0])\n"
    )
    namespace = {"framejit": framejit}
    exec(source, namespace)
    log: list[int] = []
    with pytest.raises(framejit.Unsupported, match="late"):
        eager(namespace["f"])(1, log)
    assert log == [1]


# ---- nested graph breaks ----


def test_nested_graph_breaks_are_switched_off_for_a_region():
    def f(a):
        with framejit.disable_nested_graph_breaks():
            b = caller(a)
        return caller(b)

    # The first call of caller is a native one, in which caller calls helper natively; the second is split inside.
    assert counts(eager(f), x) == (6, 4, 0)
    assert all("in the middle" in reason for reason in framejit.statistics()["reasons"])


def test_nested_graph_breaks_are_switched_off_for_a_function():
    @framejit.disable_nested_graph_breaks
    def f(a):
        b = a * 2
        return caller(b) + 1

    assert f.__name__ == "f"
    compiled = eager(f)
    assert counts(compiled, x) == (6, 3, 0)  # f, caller and helper are each split around a native call
    with framejit.disable_nested_graph_breaks():
        around = eager(lambda a: caller(a * 2) - 1)
        assert counts(around, x) == (6, 3, 0)
    assert counts(eager(framejit.disable_nested_graph_breaks()(caller)), x) == (4, 2, 0)
    with pytest.raises(framejit.BadArgument, match="decorates a callable"):
        framejit.disable_nested_graph_breaks(3)


# ---- disable ----

inner = eager(lambda a: a * 5)


def calls_inner(a):
    return inner(a) + 1


def test_disable_of_one_frame_only():
    only = framejit.disable(calls_inner, recursive=False, reason="it is tricky")
    everything = framejit.disable(calls_inner)
    assert only.__name__ == "calls_inner"
    f = eager(lambda a: only(a * 2) + 1)
    assert torch.equal(f(x), x * 10 + 2) and len(inner.entries) == 1
    assert "it is tricky" in framejit.statistics()["reasons"][0]
    inner.clear()
    assert torch.equal(eager(lambda a: everything(a * 2) + 1)(x), x * 10 + 2) and not inner.entries
    decorated = framejit.disable(recursive=False)(calls_inner)
    decorated(x)
    assert len(inner.entries) == 1
    with pytest.raises(framejit.BadArgument, match="recursive"):
        framejit.disable(calls_inner, recursive=None)
    with pytest.raises(framejit.BadArgument, match="decorate the function"), framejit.disable(recursive=False):
        pass


def test_a_disabled_function_is_not_compiled():
    off = framejit.disable(calls_inner)
    assert eager(off) is off
    off = torch.compiler.disable(calls_inner)
    assert eager(off) is off


def test_a_disabled_block_in_a_compiled_function():
    seen = []

    def f(a):
        b = a + 1
        with framejit.disable():
            seen.append(framejit.is_compiling())
            b = b * 2
        return b - 1

    assert counts(eager(f), x) == (1, 1, 0)
    assert seen == [False] * 3
    assert counts(eager(lambda a: a + 1), x) == (1, 0, 0)


# ---- compile inside compiled code ----


def test_compiled_functions_are_traced_through():
    assert counts(eager(lambda a: inner(a) + 1), x) == (1, 0, 0)
    whole = strictly(helper)
    for f in (eager(lambda a: whole(a)), eager(lambda a: strictly(helper)(a))):
        with pytest.raises(framejit.Unsupported, match="in the middle"):
            f(x)


def test_a_whole_graph_inside_another_may_allow_breaks():
    @strictly
    def allows(a):
        with framejit.error_on_graph_break(False):
            return helper(a)

    def f(a):
        return allows(a) + 1

    compiled = eager(f)
    assert torch.equal(compiled(x), helper(x) + 1)
    assert framejit.statistics()["graph_breaks"] == 1 and framejit.statistics()["graphs"] == 2


def test_compile_inside_compiled_code():
    def f(a):
        @framejit.compile(backend="eager", fullgraph=True)
        def scaled(b):
            return b * a

        plain = framejit.compile(lambda b: b + a, backend="eager")
        return scaled(a) + plain(a) + framejit.compile(inner, backend="eager")(a)

    assert counts(strictly(f), x) == (1, 0, 0)


def test_what_compile_makes_in_a_trace_may_leave_it():
    def f(a):
        made = framejit.compile(lambda b: b * a, backend="eager")
        return made(a), made

    result, made = strictly(f)(x)
    assert isinstance(made, CompiledFunction) and torch.equal(result, x * x) and torch.equal(made(x + 1), (x + 1) * x)
    assert len(made.entries) == 1


def test_errors_of_compile_in_a_trace_are_its_own():
    def f(a):
        try:
            framejit.compile(helper, backend="eagre")
        except framejit.UnknownBackend as error:
            return a, str(error)
        return a, None

    assert "did you mean 'eager'" in strictly(f)(x)[1]


def test_compiling_a_module_in_a_trace_is_a_break():
    layer = nn.Linear(3, 3)

    def f(a):
        return framejit.compile(layer, backend="eager")(a + 1) * 2

    assert torch.allclose(eager(f)(x), layer(x + 1) * 2)
    assert framejit.statistics()["fallbacks"] == 0


# ---- what other libraries ask of torch's tracer ----


def test_torch_graph_break_and_skip_frame():
    def f(a):
        b = a + 1
        dynamo.graph_break("for torch")
        return b * 2

    def g(a):
        b = a + 1
        dynamo.skip_frame("whole")
        return b

    assert counts(eager(f), x) == (2, 1, 0)
    assert "for torch" in framejit.statistics()["reasons"][0]
    assert counts(eager(g), x) == (0, 1, 1)
    assert counts(eager(lambda a: g(a * 2) + 1), x) == (2, 1, 0)


def test_torch_regions_that_change_its_tracer_only():
    scalars = dynamo.patch_dynamo_config(capture_scalar_outputs=True)

    @scalars
    def decorated(x):
        return x * 2

    def entered(x):
        with dynamo.patch_dynamo_config(capture_scalar_outputs=True), dynamo.patch_dynamo_config({"verbose": True}), dynamo.dont_skip_tracing():
            return decorated(x) + 1

    assert counts(strictly(entered), x) == (1, 0, 0)


def test_torch_region_with_a_setting_that_it_refuses():
    def entered(x):
        with dynamo.patch_dynamo_config(recompile_limit=3):
            return x

    for function in (entered, eager(entered)):
        with pytest.raises(ValueError, match="recompile_limit"):
            function(x)


def test_torch_error_on_graph_break():
    def f(a):
        with dynamo.error_on_graph_break(True):
            b = a * 3
            with dynamo.error_on_graph_break(False):
                b = helper(b)
            b = b + 1
        return helper(b)

    def g(a):
        with dynamo.error_on_graph_break(True):
            return helper(a)

    def fails(a):
        @dynamo.error_on_graph_break(True)
        def wrapped(b):
            return helper(b)

        return wrapped(a)

    assert counts(eager(f), x) == (3, 2, 0)
    for failing in (g, fails):
        with pytest.raises(framejit.Unsupported):
            eager(failing)(x)
    compiled = eager(caller)
    compiled(x)
    with dynamo.error_on_graph_break(True), pytest.raises(framejit.Unsupported):
        compiled(x)
    assert torch.equal(compiled(x), caller(x))


@pytest.mark.parametrize("mark", [
    torch.compiler.disable, dynamo.disable, functools.partial(dynamo.disable, recursive=False), torch.compiler.disable(reason="why"),
    dynamo.decorators.skip,
])  # fmt: skip
def test_torch_disable(mark):
    def off(a):
        return a * 3

    off = mark(off)
    compiled = eager(lambda a: off(a + 1) + 1)
    assert torch.equal(compiled(x), (x + 1) * 3 + 1)
    statistics = framejit.statistics()
    assert (statistics["graphs"], statistics["graph_breaks"], statistics["fallbacks"]) == (2, 1, 0)
    assert "off" in statistics["reasons"][0]


def test_torch_disallow_in_graph_and_allow_in_graph():
    def f(a):
        return torch.sub(a + 1, 1) * 2

    dynamo.disallow_in_graph(torch.sub)
    try:
        assert counts(eager(f), x) == (2, 1, 0)
        assert "disallow_in_graph" in framejit.statistics()["reasons"][0]
    finally:
        dynamo.allow_in_graph(torch.sub)
    assert counts(eager(f), x) == (1, 0, 0)


def test_torch_allow_in_graph_of_a_function():
    seen = []

    @dynamo.allow_in_graph
    def opaque(a):
        seen.append(type(a))
        return a.cos() + 1

    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm

    compiled = framejit.compile(lambda a: opaque(a + 1) * 2, backend=backend)
    assert torch.equal(compiled(x), ((x + 1).cos() + 1) * 2)
    assert opaque in [node.target for node in graphs[0].graph.nodes]
    calls = len(seen)
    compiled(x)
    assert len(seen) == calls + 1
