"""torch.autograd.Function in compiled code: values, gradients and side effects, in one graph with both backends where nothing forbids it."""

from __future__ import annotations

import gc
import math
import os
import sys
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import Comparison
from named import Programs
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

import framejit

BACKENDS = ("eager", "aot_eager")
KEYWORDS = torch.__version__ >= "2.13"
"""Whether `Function.apply` takes keyword arguments."""
PROGRAMS = Programs()
"""By name: takes a State, and gives a loss. Each is one graph with both backends."""
SPLIT = Programs()
"""Programs that the graph can't hold, or not with each backend."""
program, split = PROGRAMS.add, SPLIT.add


class State:
    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        self.w, self.v = (torch.randn(3, 3, requires_grad=True) for _ in range(2))
        self.x, self.mean = torch.randn(5, 3), torch.zeros(3)
        self.index = torch.tensor([0, 2, 0])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.seen: list[Any] = []
        self.calls = 0

    def portrait(self) -> list[Any]:
        leaves = [self.w, self.v, *self.model.parameters()]
        grads = [None if leaf.grad is None else leaf.grad.clone() for leaf in leaves]
        return [[leaf.detach().clone() for leaf in leaves], grads, self.mean.clone(), list(self.seen), self.calls]


class Sign(Function):
    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, grad):
        return F.hardtanh(grad)


class Reversed(Function):
    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -grad * ctx.alpha, None


class Relu(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        result = grad.clone()
        result[x < 0] = 0
        return result


class Gelu(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(1.7 * x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        gate = torch.sigmoid(1.7 * x)
        return grad * (gate + 1.7 * x * gate * (1 - gate))


class Linear(Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight, bias)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, grad):
        x, weight, bias = ctx.saved_tensors
        found = [None, None, None]
        if ctx.needs_input_grad[0]:
            found[0] = grad @ weight
        if ctx.needs_input_grad[1]:
            found[1] = grad.t() @ x
        if bias is not None:
            found[2] = grad.sum(0)
        return tuple(found)


class Softplus(Function):
    @staticmethod
    def forward(x, beta=2.0):
        return F.softplus(x, beta)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.beta = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return grad * torch.sigmoid(ctx.saved_tensors[0] * ctx.beta), None


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        return grad * 3 * ctx.saved_tensors[0] ** 2


class Sine(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return grad * Cosine.apply(ctx.saved_tensors[0]) * 2


class Cosine(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.cos()

    @staticmethod
    def backward(ctx, grad):
        return -grad * Sine.apply(ctx.saved_tensors[0])


class Pair(Function):
    """Gives what is no tensor too, an input, and tensors in a list, which have no gradient."""

    @staticmethod
    def forward(ctx, x, index, options):
        ctx.save_for_backward(index, None)
        ctx.shape, ctx.options = x.shape, options
        return x[index] * options["scale"], None, x, [x * 2]

    @staticmethod
    def backward(ctx, grad, _, of_input, __):
        index, none = ctx.saved_tensors
        assert none is None and not ctx.needs_input_grad[1]
        return torch.zeros(ctx.shape).index_add_(0, index, grad) * ctx.options["scale"] + of_input * 7, None, None


class Sorted(Function):
    @staticmethod
    def forward(ctx, x):
        values, indices = x.sort()
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)
        return values, indices

    @staticmethod
    def backward(ctx, grad, _):
        return torch.zeros_like(grad).scatter(-1, ctx.saved_tensors[0], grad)


class Unmaterialized(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, a, b):
        total = 0
        if a is not None:
            total = total + a * 11
        if b is not None:
            total = total + b * 13
        return total


class InPlace(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x.mul_(2))
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


class Kept(Function):
    """Keeps what it gives, and what it has computed, as attributes."""

    @staticmethod
    def forward(ctx, x):
        ctx.result, ctx.mask = x.exp(), x > 0
        ctx.save_for_backward(ctx.result)
        return ctx.result

    @staticmethod
    def backward(ctx, grad):
        return grad * (ctx.result + ctx.saved_tensors[0]) * ctx.mask


class Seen(Function):
    """A forward with side effects: on the state, and on a tensor that needs no gradient. What it computes gets outside."""

    @staticmethod
    def forward(ctx, x, state):
        state.calls += 1
        state.seen.append(state.calls)
        state.mean.lerp_(x.mean(0), 0.1)
        ctx.calls = state.calls
        state.kept = x.sin()
        return x - state.mean

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.calls, None


class Counted(Function):
    @staticmethod
    def forward(ctx, x, state):
        ctx.state = state
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        ctx.state.calls += 1
        return grad * ctx.state.calls, None


class DependsOnData(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 if grad.sum().item() > 0 else grad * 3


class Fails(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, grad):
        if grad.dim() == 1:
            raise KeyError("on purpose")
        return grad  # one too few


class Mixed(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad @ b.t(), a.t() @ grad


class NoGradient(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return None


class Flat(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.reshape(-1)

    @staticmethod
    def backward(ctx, grad):
        if not grad.is_contiguous():
            grad = grad.contiguous()
        return grad.view(ctx.shape)


@program
def straight_through(s):
    return (Sign.apply(s.model(s.x)) * 2).sum()


@program
def reversal(s):
    return s.model[2](Reversed.apply(s.model[1](s.model[0](s.x)), 0.3)).pow(2).mean()


@program
def activations(s):
    soft = Softplus.apply(s.v, beta=3.0) if KEYWORDS else Softplus.apply(s.v, 3.0)
    return (Relu.apply(s.w) * Gelu.apply(s.v)).sum() + Softplus.apply(s.w).sum() + soft.sum()


@program
def layers(s):
    return Linear.apply(Relu.apply(Linear.apply(s.x, s.model[0].weight, s.model[0].bias)), s.model[2].weight).pow(2).sum()


@program
def several_results(s):
    a, b, c, d = Pair.apply(s.w, s.index, {"scale": 2.0})
    s.seen.append((b is None, c is s.w, c.requires_grad, d[0].requires_grad))
    return (a * c).sum()


@program
def unused_results(s):
    return Pair.apply(s.w, s.index, {"scale": 2.0})[0].sum() + Unmaterialized.apply(s.w)[1].sum() + Unmaterialized.apply(s.v)[0].sum()


@program
def indices(s):
    values, found = Sorted.apply(s.w)
    s.seen.append(found.requires_grad)
    return (values * found).sum()


@program
def changes_its_input(s):
    y = s.w * 3
    z = InPlace.apply(y)
    s.seen.append(z is y)
    return (z * s.v).sum() + y.sum()


@program
def one_input_twice(s):
    return Linear.apply(s.w, s.w).sum()


@program
def attributes(s):
    return Kept.apply(s.w).sum()


@program
def side_effects(s):
    s.seen.append("before")
    loss = Seen.apply(s.w, s).sum()
    s.seen.append((s.calls, s.kept.requires_grad))
    return loss + s.kept.sum()


@program
def without_a_gradient(s):
    with torch.no_grad():
        y = InPlace.apply(Cube.apply(s.w))
    return (y * s.v).sum()


@program
def gradient_of_none(s):
    return NoGradient.apply(NoGradient.apply(s.w)).sum() + s.w.sum()


@program
def under_autocast(s):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = Mixed.apply(s.w, s.v)
    return y.float().sum()


@program
def layouts(s):
    return Flat.apply(s.w).sum() + Flat.apply(s.v.t()).sum()


@program
def checkpointed(s):
    return checkpoint(lambda x: Gelu.apply(x).sin(), s.w, use_reentrant=False).sum()


@program
def whole_step(s):
    s.optimizer.zero_grad()
    loss = s.model[2](Gelu.apply(Linear.apply(s.x, s.model[0].weight, s.model[0].bias))).pow(2).mean()
    loss.backward()
    s.optimizer.step()
    return loss.detach()


@program
def penalty(s):
    (grad,) = torch.autograd.grad(Cube.apply(s.w).sum(), s.w, create_graph=True)
    loss = (grad.norm() - 1) ** 2
    loss.backward()
    return loss.detach()


@program
def gradient_of_a_result(s):
    y = Cube.apply(s.w)
    return torch.autograd.grad((y * y).sum(), y)[0].sum()


@split
def one_through_another(s):
    return (Sine.apply(s.w) * s.v).sum()


@split
def backward_with_side_effects(s):
    return Counted.apply(s.w, s).sum()


@split
def backward_with_side_effects_inside(s):
    Counted.apply(s.w, s).sum().backward()
    s.seen.append(s.calls)
    return s.w.sum().detach()


@split
def backward_that_depends_on_data(s):
    return DependsOnData.apply(s.w).sum()


@split
def failing_backward(s):
    return Fails.apply(s.w, s.v).sum()


@split
def raising_backward(s):
    return Fails.apply(s.w[0], s.v[0]).sum()


@split
def changed_view(s):
    return Reversed.apply(s.w * 2, 0.5).add_(1).sum()


@split
def second_gradient_of_the_undifferentiable(s):
    (grad,) = torch.autograd.grad(Gelu.apply(s.w).sum(), s.w, create_graph=True)
    return (grad.norm() - 1) ** 2


def outcome(call: Callable[..., Any], *args: Any) -> Any:
    try:
        return call(*args)
    except (RuntimeError, KeyError) as error:
        return type(error), str(error)[:60]


def story(call: Callable[..., Any]) -> list[Any]:
    """Three steps: the loss is differentiated too, where it can be, with gradients of either sign."""
    state, told = State(), []
    for sign in (1.0, -1.0, 1.0):
        loss = outcome(call, state)
        if isinstance(loss, torch.Tensor):
            told.append(outcome(lambda: loss.backward(torch.tensor(sign))) if loss.requires_grad else "no gradient")
            loss = loss.detach()
        told += [loss, state.portrait()]
    return told


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [*PROGRAMS, *SPLIT])
def test_functions_give_eagers_gradients(name: str, backend: str) -> None:
    fn = PROGRAMS.get(name) or SPLIT[name]
    framejit.reset()
    Comparison().same(story(framejit.compile(fn, backend=backend)), story(fn))
    found = framejit.statistics()
    if name in PROGRAMS:
        assert found["graph_breaks"] == 0 and found["graphs"] <= 2 + (name == "side_effects"), found


@pytest.mark.only_eager("AOTAutograd's backward can't be differentiated")
@pytest.mark.parametrize("function", [Cube, Sine, Gelu])
def test_second_gradients_outside(function: type[Function]) -> None:
    def second(call: Callable[..., Any]) -> Any:
        x = torch.arange(3.0).requires_grad_()
        (grad,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
        return grad.detach(), outcome(torch.autograd.grad, grad.sum(), x)

    def fn(x):
        return function.apply(x * 2)

    Comparison().same(second(framejit.compile(fn, backend="eager")), second(fn))


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_changes_between_calls(backend: str) -> None:
    """Values that a backward reads are guarded like those that the forward reads."""
    factor = {"of": 2.0}

    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad * factor["of"]

    compiled = framejit.compile(lambda x: Scaled.apply(x).sum(), backend=backend)
    for value in (2.0, 5.0):
        factor["of"] = value
        x = torch.ones(2, requires_grad=True)
        compiled(x).backward()
        assert x.grad.tolist() == [value, value]


scale_of_all = 2.0


class Scaling(Function):
    scale = 2.0
    of = SimpleNamespace(scale=2.0)

    @staticmethod
    def forward(ctx, x, how):
        ctx.how = how
        return x * scale_of_all

    @staticmethod
    def backward(ctx, grad):
        if ctx.how == "library":
            return grad * math.sqrt(2 / math.pi) * torch.pi, None
        return grad * {"global": scale_of_all, "class": Scaling.scale, "object": Scaling.of.scale}[ctx.how], None


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("how", ["global", "class", "object", "library"])
def test_what_changes_before_the_backward_pass(how: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backward that reads what a program may change before it runs is run natively, unless the graph has run it when the call ends."""
    compiled = framejit.compile(lambda x: Scaling.apply(x, how).sum(), backend=backend)
    told = []
    for call in (compiled, lambda x: Scaling.apply(x, how).sum()):
        with monkeypatch.context() as changes:
            x = torch.ones(2, requires_grad=True)
            loss = call(x)
            changes.setattr(sys.modules[__name__], "scale_of_all", 5.0)
            changes.setattr(Scaling, "scale", 7.0)
            changes.setattr(Scaling.of, "scale", 9.0)
            loss.backward()
        told.append(x.grad)
    torch.testing.assert_close(told[0], told[1])


UNIT = 1.0


def times(grad, factor=2.0):
    return grad * factor


class Calling(Function):
    @staticmethod
    def forward(ctx, x):
        return x * torch.pi

    @staticmethod
    def backward(ctx, grad):
        return times(grad) * UNIT * (math.pi if "FRAMEJIT_TESTS_UNSET" not in os.environ else 1.0)


CHANGES: dict[str, Callable[[pytest.MonkeyPatch], Any]] = {
    "a constant": lambda changes: changes.setattr(sys.modules[__name__], "UNIT", 5.0),
    "a global": lambda changes: changes.setattr(sys.modules[__name__], "times", lambda grad: grad),
    "code": lambda changes: changes.setattr(times, "__code__", (lambda grad, factor: grad).__code__),
    "defaults": lambda changes: changes.setattr(times, "__defaults__", (3.0,)),
    "the backward": lambda changes: changes.setattr(Calling, "backward", staticmethod(lambda ctx, grad: grad)),
    "the library": lambda changes: changes.setattr(math, "pi", 3.0),
    "the environment": lambda changes: changes.setenv("FRAMEJIT_TESTS_UNSET", ""),
}
"""What changes another backward pass than the one that is compiled."""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("change", [*CHANGES, "nothing", "what the forward uses"])
def test_what_a_backward_pass_uses_must_stay(change: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its compiled form is refused when it is to run; it isn't for changes of other things."""
    framejit.reset()
    x = torch.ones(2, requires_grad=True)
    loss = framejit.compile(lambda x: Calling.apply(x).sum(), backend=backend)(x)
    with monkeypatch.context() as changes:
        CHANGES.get(change, lambda changes: changes.setattr(torch, "pi", 3.0) if "forward" in change else None)(changes)
        if change in CHANGES:
            with pytest.raises(RuntimeError, match="was compiled with the forward pass, and what it uses has changed since: "):
                loss.backward(retain_graph=True)
            assert x.grad is None
    loss.backward()
    torch.testing.assert_close(x.grad, torch.full((2,), 2 * math.pi))
    assert framejit.statistics()["graphs"] == 1 and not framejit.statistics()["reasons"]


LIMIT, MODE = 0.5, "clip"


class Clipped(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sqrt()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / torch.clip(4.0 * x, min=1 / LIMIT**2).sqrt() if MODE == "clip" else grad


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backward_reads_constants_of_its_module(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are part of the graph until one of them is seen to vary, from which on the backward runs natively."""
    framejit.reset()
    compiled = framejit.compile(lambda x: Clipped.apply(x).sum(), backend=backend)
    for number, limit in enumerate((0.5, 0.5, 0.25, 2.0)):
        monkeypatch.setattr(sys.modules[__name__], "LIMIT", limit)
        told = []
        for call in (compiled, lambda x: Clipped.apply(x).sum()):
            x = torch.tensor([0.1, 2.0, 9.0], requires_grad=True)
            loss = call(x)
            if number == 3:
                monkeypatch.setattr(sys.modules[__name__], "LIMIT", limit + 1)
            loss.backward()
            monkeypatch.setattr(sys.modules[__name__], "LIMIT", limit)
            told.append(x.grad)
        torch.testing.assert_close(told[0], told[1])
        assert framejit.statistics()["graph_breaks"] == (number > 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_backward_pass_uses_lives_as_long(backend: str) -> None:
    """A Function, and a function that its backward calls, of which the program has no more than a loss."""

    def loss_of(x: torch.Tensor) -> tuple[torch.Tensor, weakref.ref[Any]]:
        def tripled(grad):
            return grad * 3

        class Local(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, grad):
                return tripled(grad)

        return framejit.compile(lambda x: Local.apply(x).sum(), backend=backend)(x), weakref.ref(Local)

    x = torch.ones(2, requires_grad=True)
    loss, local = loss_of(x)
    framejit.reset()
    gc.collect()
    loss.backward()
    torch.testing.assert_close(x.grad, torch.full((2,), 3.0))
    del loss
    gc.collect()
    assert local() is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_vary(backend: str) -> None:
    framejit.reset()
    compiled = framejit.compile(lambda x: Gelu.apply(Flat.apply(x)), backend=backend)
    for size in (4, 7, 9, 1, 12):
        told = []
        for call in (compiled, lambda x: Gelu.apply(Flat.apply(x))):
            x = torch.arange(size * 3.0).reshape(size, 3).requires_grad_()
            call(x).sum().backward()
            told.append(x.grad)
        torch.testing.assert_close(told[0], told[1])
    assert framejit.statistics()["graph_breaks"] == 0 and framejit.statistics()["graphs"] <= 3


@pytest.mark.only_eager("AOTAutograd's backward can't be differentiated")
def test_gradients_that_can_be_had_once_are_had_with_create_graph() -> None:
    """Of a Function with one argument, that what comes of it raises comes as a tensor, and not in a tuple."""

    class Tripled(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @once_differentiable
        def backward(ctx, gradient):
            return gradient * 3

    def f(x):
        return Tripled.apply(x)

    x = torch.randn(4, 3, requires_grad=True)
    for call in (f, framejit.compile(f, backend="eager")):
        (gradient,) = torch.autograd.grad((call(x) * x).sum(), x, create_graph=True)
        torch.testing.assert_close(gradient.detach(), x.detach() * 5)
        torch.testing.assert_close(torch.autograd.grad(gradient.sum(), x)[0], torch.full_like(x, 3))


class GivesItsInput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x, x + 1

    @staticmethod
    def backward(ctx, g, h):
        return g + h


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_view_of_no_use_after_its_base_has_changed_is_a_result(backend):
    def f(x):
        first, _ = GivesItsInput.apply(x)
        with torch.no_grad():
            first[0] = 9
        return first

    found = []
    for run in (f, framejit.compile(f, backend=backend)):
        result = run(torch.arange(3.0, requires_grad=True) * 2)
        with pytest.raises(RuntimeError, match="does not allow|do not allow|forbidden"):
            result.grad_fn
        found.append((result.requires_grad, result.tolist()))
    assert found[0] == found[1]


class Quotient(Function):
    """Its backward gives a gradient of more elements than the divisor, which autograd sums in the order in which they lie in memory."""

    @staticmethod
    def forward(ctx, x, divisor):
        ctx.save_for_backward(x, divisor)
        return x / divisor

    @staticmethod
    def backward(ctx, gradient):
        x, divisor = ctx.saved_tensors
        return gradient / divisor, -gradient * x / divisor**2


@pytest.mark.parametrize("use", [lambda y, w: (y * w.T).sum(), lambda y, w: y.sum(), lambda y, w: (y.T @ w).sum()], ids=["transposed", "expanded", "product"])
def test_a_backward_that_computes_element_by_element_takes_gradients_as_they_are_laid_out(use):
    x, w = torch.randn(21, 21, generator=torch.Generator().manual_seed(0)), torch.randn(21, 21, generator=torch.Generator().manual_seed(1))
    found = []
    for function in (Quotient.apply, framejit.compile(lambda x, divisor: Quotient.apply(x, divisor), backend="eager", fullgraph=True)):
        divisor = torch.full((1, 1), 1.7, requires_grad=True)
        use(function(x, divisor), w).backward()
        found.append(divisor.grad)
    assert torch.equal(*found)
