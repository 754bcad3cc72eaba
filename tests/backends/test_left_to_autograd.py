"""Errors that eager raises in a backward pass are raised there by all backends, with the same type; graphs that AOTAutograd refuses run all the same."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import framejit
from framejit.errors import BackendError

IN_THE_PLACE_OF_EAGER = ["eager", "aot_eager"]
NUMBERS = [[0.1, 0.2], [0.3, 0.4]]
done: list[str] = []


class WrongShape(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient.new_ones(3, 7)


@torch.library.custom_op("left_to_autograd::without_formula", mutates_args=())
def without_formula(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@torch.library.custom_op("left_to_autograd::bad_formula", mutates_args=())
def bad_formula(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def raises(ctx, gradient):
    raise ArithmeticError("no way back")


for operator in (without_formula, bad_formula):
    operator.register_fake(torch.empty_like)
bad_formula.register_autograd(raises)


def result_changed(x):
    done.append("before")
    y = x.sigmoid()
    y.mul_(2)
    done.append("after")
    return y.sum()


def operand_changed(x):
    a = x * 2
    b = a**2
    a.add_(1)
    return (b + a).sum()


def row_replaced(x):
    y = x.clone()
    y[0] = y.sum(0)
    z = y**2
    y[1] = 3
    return z.sum() + y.sum()


def changed_by_a_detached_one(x):
    y = x.exp()
    y.detach().zero_()
    return y.sum()


def changed_in_a_handler(x):
    a = x * 2
    b = a**2
    a.add_(1)
    try:
        b.sum().backward()
    except RuntimeError as error:
        done.append(str(error)[:30])
        return x.sum() * 3
    return b.sum()


def gradient_of_wrong_shape(x):
    return WrongShape.apply(x).sum()


def operator_without_formula(x):
    return without_formula(x).sum() + x.sum()


def operator_with_bad_formula(x):
    return bad_formula(x).sum()


def view_without_record(x):
    y = x * 1
    with torch.no_grad():
        view = y.view(-1)
    y.mul_(2)
    return view


def view_of_leaf_without_record(x):
    with torch.no_grad():
        view = x.view(-1)
        x.mul_(2)
    return view


def strided_view_of_leaf_without_record(x):
    with torch.no_grad():
        view = x.as_strided((2,), (2,))
        x.mul_(2)
    return view


def operand_changed_before_a_break_without_gradients(x):
    buffer = torch.ones(2, 2)
    y = x * buffer
    with torch.no_grad():
        buffer.copy_(y)
        framejit.graph_break()
        view = y.view(-1)
    return y, view


def played(function, leaf=None):
    """Call a function twice with its backward passes; return values, gradients, changes and exceptions, and the list of things done."""
    x = torch.tensor(NUMBERS, requires_grad=True) if leaf is None else leaf
    done.clear()
    out: list[object] = []
    for _ in range(2):
        try:
            results = function(x)
        except Exception as error:
            out.append((type(error), str(error)))
            continue
        for result in results if isinstance(results, tuple) else (results,):
            out += [result.tolist(), result.requires_grad]
            try:
                if result.requires_grad:
                    result.sum().backward(retain_graph=True)
            except Exception as error:
                out.append((type(error), str(error)[:60]))
        out += [x.tolist(), None if x.grad is None else x.grad.tolist()]
    return out, list(done)


RAISING = [
    result_changed, operand_changed, row_replaced, changed_by_a_detached_one, changed_in_a_handler, gradient_of_wrong_shape, operator_without_formula,
    operator_with_bad_formula, view_without_record, view_of_leaf_without_record, strided_view_of_leaf_without_record,
    operand_changed_before_a_break_without_gradients,
]  # fmt: skip


@pytest.mark.parametrize("function", RAISING, ids=lambda function: function.__name__)
def test_a_backward_pass_raises_what_eager_raises(function):
    assert played(framejit.compile(function, backend="eager")) == played(function)


@pytest.mark.only_eager("the test names its backend")
@pytest.mark.parametrize("function", [result_changed, gradient_of_wrong_shape, operator_without_formula, view_of_leaf_without_record])
def test_with_inductor_too(function, warnings_logged):
    framejit.reset()
    assert played(framejit.compile(function, backend="inductor", fullgraph=True)) == played(function)
    (told,) = warnings_logged()
    assert f"{function.__name__} (" in told and "runs with the backend eager, for inductor can't compile its graph" in told
    assert any("can't compile its graph" in reason for reason in framejit.statistics()["reasons"])


@pytest.mark.only_eager("the test names its backend")
def test_each_model_is_told_of_by_its_own_name(warnings_logged):
    class First(nn.Module):
        def forward(self, x):
            return result_changed(x)

    class Second(nn.Module):
        def forward(self, x):
            return operand_changed(x)

    framejit.reset()
    x = torch.tensor(NUMBERS, requires_grad=True)
    for model in (First(), Second()):
        framejit.compile(model, backend="aot_eager")(x)
    first, second = warnings_logged()
    assert "First.forward (" in first and "Second.forward (" in second and __file__ in first
    assert "\nruns with the backend eager, for aot_eager can't compile" in str(framejit.explain(result_changed, backend="aot_eager")(x))


def test_other_results_can_be_differentiated():
    @framejit.compile(backend="eager", fullgraph=True)
    def f(x):
        y = x.sigmoid()
        y.mul_(2)
        return x.sin().sum(), y.sum()

    x = torch.tensor(NUMBERS, requires_grad=True)
    first, second = f(x)
    first.backward()
    assert torch.equal(x.grad, x.detach().cos())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        second.backward()


def test_sizes_that_vary():
    @framejit.compile(backend="eager", fullgraph=True, dynamic=True)
    def f(x):
        y = x.exp()
        y.add_(1)
        return y.sum()

    for size in (3, 5, 7):
        x = torch.ones(size, requires_grad=True)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            f(x).backward()
        assert x.grad is None


def test_what_follows_a_break_is_compiled_as_before():
    def f(x):
        y = without_formula(x) + x
        framejit.graph_break()
        return y.detach().sin() * x

    framejit.reset()
    compiled = framejit.compile(f, backend="eager")
    x = torch.tensor(NUMBERS, requires_grad=True)
    expected = torch.autograd.grad(f(x).sum(), x)
    assert torch.equal(torch.autograd.grad(compiled(x).sum(), x)[0], expected[0])
    assert len(compiled.entries) == 1


@pytest.mark.only_eager("the test has backends of its own")
@pytest.mark.parametrize("function", [result_changed, torch.sin])
def test_a_backends_own_fault_stays_one(function):
    def broken(gm, inputs):
        raise RuntimeError("the backend's own")

    with pytest.raises(BackendError, match="the backend's own"):
        framejit.compile(lambda x: function(x), backend=broken)(torch.tensor(NUMBERS, requires_grad=True))


def strided_view_of_view(x):
    y = x * 1
    v = y.as_strided((2, 2), (2, 1)).as_strided((2,), (2,))
    v.mul_(3)
    return y, v


def strided_view_of_view_of_leaf(x):
    with torch.no_grad():
        x.as_strided((4,), (1,)).as_strided((2, 2), (2, 1)).mul_(3)
    return (x * 2).sum()


def view_of_strided_view_of_view(x):
    y = x * 1
    v = y.view(-1).as_strided((2,), (1,), 2)
    v.view(1, 2).add_(1)
    v.mul_(2)
    return y.sum()


@pytest.mark.parametrize("function", [strided_view_of_view, strided_view_of_view_of_leaf, view_of_strided_view_of_view])
def test_strided_views_of_views_may_be_changed(function):
    assert played(framejit.compile(function, backend="eager", fullgraph=True)) == played(function)


@pytest.mark.parametrize("part", [slice(None), slice(1)])
def test_two_parameters_in_one_storage(part):
    def make():
        a = nn.Parameter(torch.ones(2, 2))
        return a, nn.Parameter(a.data[part])

    def program(a, b):
        def f(x):
            with torch.no_grad():
                a.mul_(2)
            return (x[part] * b).sum()

        return f

    (a, b), (c, d) = make(), make()
    compiled, plain = framejit.compile(program(a, b), backend="eager", fullgraph=True), program(c, d)
    assert played(compiled) == played(plain)
    assert torch.equal(a, c) and torch.equal(b.grad, d.grad) and a.grad is None is c.grad


def test_a_view_without_record_goes_over_a_break():
    def f(x):
        with torch.no_grad():
            view = x.t()
            x.mul_(2)
            framejit.graph_break()
            return view, view * 2

    assert played(framejit.compile(f, backend="eager")) == played(f)


def test_a_view_without_record_is_asked_whether_it_is_a_leaf():
    def f(x):
        with torch.no_grad():
            view = x.view(-1)
            x.mul_(2)
        return x * int(view.is_leaf)

    assert played(framejit.compile(f, backend="eager")) == played(f)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_view_made_without_gradients_may_be_changed_beside_its_base(backend):
    def f(base, view):
        half = view * 0.5
        view.add_(1)
        return view + half, base * 2

    def played_with(function):
        base = torch.tensor(NUMBERS, requires_grad=True) * 2
        with torch.no_grad():
            return *function(base, base.view(-1)), base.detach()

    for ours, eagers in zip(played_with(framejit.compile(f, backend=backend, fullgraph=True)), played_with(f), strict=True):
        assert torch.equal(ours, eagers) and ours.requires_grad == eagers.requires_grad


@pytest.mark.parametrize("backend", IN_THE_PLACE_OF_EAGER)
def test_a_view_made_without_gradients_of_a_changed_argument_is_a_result(backend):
    def program(x):
        rows = x[1:]
        rows.clamp_(0, 4)
        return rows

    compiled = framejit.compile(program, backend=backend)
    found = []
    for run in (program, compiled, compiled):
        x = torch.arange(6.0).requires_grad_() * 2
        with torch.no_grad():
            rows = run(x)
            rows.add_(1)
        found.append([rows.requires_grad, rows.tolist(), x.tolist()])
    assert found[1:] == found[:1] * 2


def operand_from_outside_changed(x):
    squares = x**2
    x[0] = 3
    return squares


def a_part_of_windows_changed(x):
    y = x * 1
    window = y.unfold(0, 2, 1)[0]
    window.clamp_(0, 2)
    return y, window


@pytest.mark.parametrize("backend", IN_THE_PLACE_OF_EAGER)
@pytest.mark.parametrize("program", [operand_from_outside_changed, a_part_of_windows_changed])
def test_a_computed_argument_is_changed(program, backend):
    """Only a backward pass raises, or nothing does. Gradients of an argument are those of what it was before the change."""

    def outcome(run):
        x = torch.arange(1.0, 5.0).requires_grad_() * 2
        results = run(x)
        results = results if isinstance(results, tuple) else (results,)
        try:
            sum(result.sum() for result in results).backward()
            error = ""
        except RuntimeError as raised:
            error = str(raised)[:40]
        return [result.tolist() for result in (*results, x)], error

    assert outcome(framejit.compile(program, backend=backend)) == outcome(program)


@pytest.mark.only_eager("the test names its backend")
def test_a_view_and_its_base_are_changed_after_a_break():
    """`out[1:]` is evaluated before the break, so that the graph after it gets `out` and a view of it, and changes both."""

    def after_a_break(y):
        framejit.graph_break()
        return y

    def fn(out, y):
        out[1:] += after_a_break(y)[1:]

    framejit.reset()
    out, w = torch.zeros(3), torch.ones(3, requires_grad=True)
    framejit.compile(fn, backend="aot_eager")(out, w * 1)
    out.sum().backward()
    assert out.tolist() == w.grad.tolist() == [0.0, 1.0, 1.0]
    assert any("can't compile its graph" in reason for reason in framejit.statistics()["reasons"])
