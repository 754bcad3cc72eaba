"""torch's modes that a compiled function enters and leaves: what they do inside, and what is in force afterwards."""

from __future__ import annotations

import contextlib

import pytest
import torch
from agreement import agree
from torch import nn
from torch.nn import functional

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


def whole_graph_in_inference_mode(t):
    with torch.inference_mode():
        a = t.t()
        b = a @ weight.detach()[:2]
        a.mul_(2)
    return a, b, t


def whole_graph_in_inference_mode_with_gradients(t):
    with torch.inference_mode(), torch.enable_grad():
        return t.t() * weight[:2]


PROGRAMS = [
    whole_graph_in_inference_mode, whole_graph_in_inference_mode_with_gradients,
    no_grad_around_everything, no_grad_to_the_end, no_grad_in_between, no_grad_twice, nested, an_exception_on_the_way, a_return_from_inside,
    decorated, calls_decorated, inference, autocast_around_everything, autocast_off_inside_on, set_grad_enabled_as_a_function,
    set_grad_enabled_with_a_flag, nothing_computed,
]  # fmt: skip


@pytest.mark.parametrize(
    "backend", [pytest.param("eager", marks=pytest.mark.only_eager("what aot_eager does has a parameter of its own")), "aot_eager"]
)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_modes_are_as_before(program, backend):
    before = state()
    fullgraph = backend == "eager" or program is not inference  # of which else all is in inference mode, or nothing
    agree(program, x, backend=backend, fullgraph=fullgraph)
    assert state() == before
    with torch.no_grad():
        agree(program, x, backend=backend, fullgraph=fullgraph)
        assert not torch.is_grad_enabled()
    assert state() == before
    with torch.autocast("cpu", torch.bfloat16):
        inside = state()
        agree(program, x, backend=backend, fullgraph=fullgraph)
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
            compiled = agree(observed, x, backend=backend, fullgraph=False, calls=1)
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


# Breaks inside the scopes: the native instruction and the rest of the block run in the mode.


def says(t):
    print(state(), t.dtype, t.is_inference())
    return t


def in_inference_mode(t):
    y = t * 2
    with torch.inference_mode():
        y = says(y + 1)
        z = y @ t.t()
    return z, y, t * weight


def in_autocast(t):
    with torch.autocast("cpu", torch.bfloat16):
        y = t @ t.t()
        says(y)
        z = y @ t
    return y, z, t @ t.t()


def in_autocast_of_a_mode_given_as_a_value(t, mode=torch.autocast("cpu", torch.float16)):
    with mode as entered:
        y = says(t @ t.t())
        z = t @ t.t()
    with mode:
        z = z + says(t @ t.t())
    return y, z, t @ t.t()


def in_record_function(t):
    with torch.profiler.record_function("block") as entered:
        y = says(t @ t.t())
        z = y @ t
    return z, t @ t.t()


def in_nested_scopes(t):
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        a = says(t @ t.t())
        with torch.enable_grad(), torch.autocast("cpu", enabled=False), torch.profiler.record_function("inner"):
            b = says(t * weight)
            c = b @ t.t()
        d = says(t * weight)
        with torch.inference_mode():
            e = says(t @ t.t())
            with torch.inference_mode(False):
                f = says(t * weight)
            g = says(t @ t.t())
    return a, b, c, d, e, f, g, says(t * weight)


def in_inference_mode_with_gradients(t):
    with torch.no_grad():
        a = t * weight
        with torch.inference_mode(), torch.enable_grad():
            b = says(t * weight)
        c = says(t * weight)
    return a, b, c, says(t * weight)


def the_mode_left_at_once(t):
    with torch.autocast("cpu", torch.bfloat16):
        says(t)
    return t @ t.t()


def only_the_break(t):
    with torch.inference_mode():
        says(t)
    with torch.autocast("cpu", torch.bfloat16):
        says(t)
    return t * 2


def in_a_loop(t):
    total = t
    for i in range(4):
        with torch.autocast("cpu", torch.bfloat16 if i % 2 else torch.float16):
            y = t @ t.t()
            says(y)
            total = total + (y @ t).float()
    return total


def leaving_a_loop_inside(t):
    for i in range(5):
        with torch.inference_mode():
            t = t + 1
            says(t)
            if i == 2:
                return t * 2
            if i % 2:
                continue
            t = t * 3
    return t


def breaks_in_a_helper(t):
    def helper(t):
        with torch.autocast("cpu", torch.bfloat16):
            y = says(t @ t.t())
            return y @ t

    with torch.inference_mode():
        y = helper(t) + 1
    return y, helper(t)


@torch.inference_mode()
def decorated_inference(t):
    return says(t * weight) + 1


@torch.autocast("cpu", torch.bfloat16)
def decorated_autocast(t):
    return says(t @ t.t()) @ t


def breaks_in_decorated(t):
    return decorated_inference(t), decorated_autocast(t), t @ t.t(), says(t * weight)


def fails(t):
    says(t)
    raise ValueError("on purpose")


fails = framejit.disable(fails)


def native_exception_inside(t):
    try:
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            y = says(t @ t.t())
            fails(y)
    except ValueError as error:
        return str(error), y, says(t @ t.t()), t * weight


def native_exception_inside_handled_there(t):
    with torch.autocast("cpu", torch.bfloat16), torch.inference_mode():
        try:
            fails(t)
        except ValueError:
            y = says(t @ t.t())
        else:
            y = t
        finally:
            z = says(t + 1) @ t.t()
    return y, z, t @ t.t()


def traced_exception_after_the_break(t):
    try:
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16), torch.profiler.record_function("block"):
            y = says(t @ t.t())
            raise ValueError(y.dtype)
    except ValueError as error:
        return error.args, y, says(t @ t.t()), t * weight


def under_a_default_device(t):
    with torch.device("meta"):
        a = torch.ones(3)
        says(a)
        b = torch.ones(4)
    return a, b, t * 2, torch.ones(2)


def under_a_default_dtype(t):
    torch.set_default_dtype(torch.float64)
    try:
        a = torch.ones(3)
        says(a)
        b = torch.ones(4)
    finally:
        torch.set_default_dtype(torch.float32)
    return a, b, torch.ones(2)


def with_a_kernel_chosen(t):
    q = t.reshape(1, 1, 2, 3)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        y = torch.nn.functional.scaled_dot_product_attention(q, q, q)
        says(y)
        z = torch.nn.functional.scaled_dot_product_attention(y, q, q)
    return y, z, torch.backends.cuda.flash_sdp_enabled()


BREAKING = [
    in_inference_mode, in_autocast, in_autocast_of_a_mode_given_as_a_value, in_record_function, in_nested_scopes, in_inference_mode_with_gradients,
    the_mode_left_at_once, only_the_break, in_a_loop, leaving_a_loop_inside, breaks_in_a_helper, breaks_in_decorated, native_exception_inside,
    native_exception_inside_handled_there, traced_exception_after_the_break, under_a_default_device, under_a_default_dtype, with_a_kernel_chosen,
]  # fmt: skip


def traits(value):
    """Return the properties of a result's tensors that `agree` doesn't compare."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.is_inference(), value.requires_grad
    return [traits(item) for item in value] if isinstance(value, (tuple, list)) else None


@pytest.mark.parametrize(
    "program, backend", [(p, b) for b in ("eager", "aot_eager") for p in BREAKING],
    ids=lambda p: getattr(p, "__name__", p),
)  # fmt: skip
def test_breaks_inside_modes(program, backend, capsys):
    def observed(t):
        result = program(t)
        return result, traits(result)

    before = state(), nesting()
    observed(x)
    expected = capsys.readouterr().out
    framejit.reset()
    compiled = agree(observed, x, backend=backend, fullgraph=False, calls=1)
    capsys.readouterr()
    for _ in range(2):
        compiled(x)
        assert capsys.readouterr().out == expected
        assert (state(), nesting()) == before
    counts = framejit.statistics()
    assert not counts["fallbacks"], counts["reasons"]
    with torch.no_grad(), torch.autocast("cpu", torch.float16):
        inside = state(), nesting()
        agree(observed, x, backend=backend, fullgraph=False)
        assert (state(), nesting()) == inside
    assert (state(), nesting()) == before


def test_a_mode_that_is_left_open():
    """Entered by hand in one call, left in another."""
    mode = torch.autocast("cpu", torch.bfloat16)

    def enter(t):
        mode.__enter__()
        return t @ t.t()

    def leave(t):
        y = t @ t.t()
        mode.__exit__(None, None, None)
        return y, t @ t.t()

    before = state(), nesting()
    compiled_enter, compiled_leave = framejit.compile(enter, backend="eager"), framejit.compile(leave, backend="eager")
    for _ in range(3):
        assert compiled_enter(x).dtype is torch.bfloat16
        assert torch.is_autocast_enabled("cpu") and nesting() == before[1] + 1
        a, b = compiled_leave(x)
        assert (a.dtype, b.dtype) == (torch.bfloat16, torch.float32)
        assert (state(), nesting()) == before


# ---- What is written to inference tensors, which have no version ----


def relu_in_place(x):
    return functional.relu(x, inplace=True) * 2


def through_a_view(x):
    x.view(-1)[0] = 7
    x[:2] -= 1
    return x.sum()


def with_out(x):
    torch.add(x, 1, out=x)
    return x * 1


def of_a_list(x):
    torch._foreach_add_([x], 1)
    return x * 2


def of_a_copy(x):
    y = x.clone()
    y *= 3
    return y, x + y


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [relu_in_place, through_a_view, with_out, of_a_list, of_a_copy], ids=lambda program: program.__name__)
def test_writes_to_inference_tensors(program, backend):
    compiled = framejit.compile(program, backend=backend)
    with torch.inference_mode():
        for _ in range(2):
            mine, theirs = torch.tensor([-1.0, 2.0, -3.0]), torch.tensor([-1.0, 2.0, -3.0])
            torch.testing.assert_close(compiled(mine), program(theirs))
            assert torch.equal(mine, theirs)


def left_behind_a_break(t, linear):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.autocast("cpu", enabled=False):
            framejit.graph_break()
            a = linear(t)
        b = linear(t)
        seen = torch.is_autocast_enabled("cpu"), torch.is_autocast_cache_enabled()
    return a, b, linear(t), seen, torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")


def entered_anew_behind_a_break(t, linear):
    """Between two autocasts weights change: casts of the old ones must not be found in the second."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        framejit.graph_break()
        a = linear(t)
    with torch.no_grad():
        linear.weight.mul_(2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        b = linear(t)
    with torch.no_grad():
        linear.weight.mul_(2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return a, b, linear(t)


def left_for_good(t, linear):
    """One that is entered and left by hand."""
    scope = torch.autocast("cpu", dtype=torch.bfloat16)
    scope.__enter__()
    framejit.graph_break()
    a = linear(t)
    scope.__exit__(None, None, None)
    return a, linear(t)


def recorded(t, linear):
    with torch.profiler.record_function("outer"):
        framejit.graph_break()
        with torch.profiler.record_function("inner"):
            y = linear(t)
    return linear(y)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "program", [left_behind_a_break, entered_anew_behind_a_break, left_for_good, recorded], ids=lambda program: program.__name__
)
def test_scopes_entered_before_a_break_are_left_inside_the_graph_behind_it(program, backend):
    before = state(), nesting()
    torch.manual_seed(0)
    t = torch.randn(2, 3)
    linear = torch.nn.Linear(3, 3)
    framejit.reset()
    agree(program, t, linear, backend=backend, fullgraph=False)
    assert framejit.statistics()["graph_breaks"] == 1
    assert framejit.statistics()["graphs"] == 1
    assert (state(), nesting()) == before


def test_an_autocast_of_the_callers_is_left_once():
    def leaves(scope, t):
        scope.__exit__(None, None, None)
        scope.__exit__(None, None, None)
        return t @ t

    compiled = framejit.compile(leaves, backend="eager")
    for function in (leaves, compiled, compiled):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            scope = torch.autocast("cpu", dtype=torch.float16)
            scope.__enter__()
            torch.autocast_increment_nesting()  # which the second `__exit__` takes away
            assert function(scope, torch.ones(2, 2)).dtype is torch.bfloat16
            assert torch.get_autocast_dtype("cpu") is torch.bfloat16
    assert nesting() == 0


def steps_inside_autocast(model, optimizer, t):
    with torch.autocast("cpu", torch.bfloat16):
        model(t).float().sum().backward()
        framejit.graph_break()
        optimizer.step()
        return model(t)


def breaks_twice_inside_autocast(model, optimizer, t):
    with torch.autocast("cpu", torch.bfloat16):
        a = model(t)
        framejit.graph_break()
        with torch.no_grad():
            model.weight.add_(1)
        b = model(t)
        framejit.graph_break()
        c = model(t)
    with torch.autocast("cpu", torch.bfloat16):
        return a, b, c, model(t)


def breaks_inside_autocast_that_is_off(model, optimizer, t):
    with torch.autocast("cpu", torch.bfloat16):
        a = model(t)
        with torch.autocast("cpu", enabled=False), torch.no_grad():
            framejit.graph_break()
            model.weight.add_(1)
        return a, model(t)


def breaks_and_raises_inside_autocast(model, optimizer, t):
    try:
        with torch.autocast("cpu", torch.bfloat16):
            a = model(t)
            framejit.graph_break()
            raise ValueError
    except ValueError:
        with torch.no_grad():
            model.weight.add_(1)
    with torch.autocast("cpu", torch.bfloat16):
        return a, model(t)


@pytest.mark.only_eager("AOTAutograd casts anew each time: docs/limits.md")
@pytest.mark.parametrize("is_inside", [False, True])
@pytest.mark.parametrize(
    "program", [steps_inside_autocast, breaks_twice_inside_autocast, breaks_inside_autocast_that_is_off, breaks_and_raises_inside_autocast]
)
def test_what_autocast_has_cast_is_used_after_a_break_as_in_eager(program, is_inside):
    """In eager, weights that change inside `autocast` are used as they were first cast, till it ends."""

    def found(call):
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 2)
        with torch.autocast("cpu", torch.bfloat16) if is_inside else contextlib.nullcontext():
            results = call(model, torch.optim.SGD(model.parameters(), 0.5), torch.ones(1, 2))
        assert torch.autocast_increment_nesting() == 1 and torch.autocast_decrement_nesting() == 0
        return [result.tolist() for result in (results if isinstance(results, tuple) else (results,))]

    assert found(framejit.compile(program, backend="eager")) == found(program)
