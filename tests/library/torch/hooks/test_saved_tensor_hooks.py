"""Hooks on saved tensors that compiled code sets: calls of the hooks, results and gradients, graphs and breaks, against eager."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import Comparison
from named import Programs
from streams import story
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

import framejit
from framejit.backends.aot_eager import BACKEND
from framejit.errors import BackendError

BACKENDS = ("eager", "aot_eager")
WHOLE = Programs()
"""By name: programs that are one graph, with their backward pass or without."""
SPLIT = Programs()
"""Programs whose hooks are set natively: they may do more than compute."""
PARTLY = Programs()
"""Programs that are one graph with the backend "eager" alone."""
whole, split, partly = WHOLE.add, SPLIT.add, PARTLY.add
scale_of_all = 0.5


@pytest.fixture(autouse=True)
def no_hooks_stay() -> Iterator[None]:
    yield
    assert torch._C._autograd._top_saved_tensors_default_hooks(True) is None
    assert not torch._C._autograd._saved_tensors_hooks_set_tracing(False)


class State:
    def __init__(self) -> None:
        self.x = torch.randn(4, 6)
        self.w = torch.randn(6, 6, requires_grad=True)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 6), nn.Softmax(-1))
        self.seen: list[Any] = []
        self.scale = 0.5


def to_bf16(tensor: torch.Tensor) -> Any:
    return tensor.dtype, tensor.to(torch.bfloat16)


def from_bf16(packed: Any) -> torch.Tensor:
    dtype, tensor = packed
    return tensor.to(dtype)


def quantised(tensor: torch.Tensor) -> Any:
    if not tensor.is_floating_point() or tensor.numel() < 6:
        return tensor
    with torch.no_grad():
        scale = tensor.abs().amax() / 127
        return (tensor / scale).round().to(torch.int8), scale


def dequantised(packed: Any) -> torch.Tensor:
    return packed if isinstance(packed, torch.Tensor) else packed[0] * packed[1]


def bf16() -> saved_tensors_hooks:
    return saved_tensors_hooks(to_bf16, from_bf16)


# Hooks that only compute.


@whole
def casts(s):
    with bf16():
        y = (s.x @ s.w).sin()
    return y.exp().sum()


@whole
def quantises(s):
    with saved_tensors_hooks(quantised, dequantised):
        y = s.model(s.x @ s.w)
    return (y * s.w[:4]).sum()


@whole
def on_cpu(s):
    with save_on_cpu():
        return s.model(s.x @ s.w).square().sum()


@whole
def on_cpu_pinned(s):
    with save_on_cpu(pin_memory=True):
        return s.model(s.x @ s.w).square().sum()


@whole
def lambdas(s):
    with saved_tensors_hooks(lambda t: t.detach() * 2, lambda t: t / 2.5):
        return s.model(s.x @ s.w).square().sum()


@whole
def as_they_are(s):
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        return s.model(s.x @ s.w).square().sum()


@whole
def closures_over_constants(s):
    def hooks(bits, dtype):
        return saved_tensors_hooks(lambda t: (t * bits).round().to(dtype), lambda t: t / bits)

    with hooks(64, torch.float64 if s.x.dtype is torch.float64 else torch.float32):
        return s.model(s.x @ s.w).square().sum()


HOOKS = saved_tensors_hooks(to_bf16, from_bf16)


@whole
def made_outside(s):
    with HOOKS:
        y = (s.x @ s.w).sin()
    with HOOKS:
        y = y.exp().sin()
    return y.sum()


@whole
def nested(s):
    with bf16():
        y = (s.x @ s.w).sin()
        with saved_tensors_hooks(lambda t: t * 3, lambda t: t):
            z = y.sin()
        z = z.cos()
    return z.exp().sum()


@whole
def in_a_loop(s):
    y = s.x
    for i in range(4):
        with bf16() if i % 2 else contextlib.nullcontext():
            y = torch.tanh(y @ s.w)
    return y.sum()


@whole
def what_is_saved_is_changed_in_place(s):
    """The hooks keep the memory that is changed: autograd doesn't notice, and the gradient is that of the new values."""
    with saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
        y = s.x @ s.w
        z = y.sin()
    with torch.no_grad():
        y.mul_(2)
    return z.sum() + y.sum()


@whole
def what_is_saved_as_a_copy_is_changed_in_place(s):
    with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = s.x @ s.w
        z = y.sin()
    y.mul_(2)
    return z.sum() + y.sum()


@whole
def under_autocast(s):
    with torch.autocast("cpu", dtype=torch.bfloat16), bf16():
        return (s.x @ s.w).float().square().sum()


@whole
def autocast_inside(s):
    with bf16(), torch.autocast("cpu", dtype=torch.bfloat16):
        return (s.x @ s.w).float().square().sum()


@whole
def without_gradients(s):
    with bf16(), torch.no_grad():
        y = s.x @ s.w
    return (y * s.w[:4]).sum()


@whole
def nothing_is_saved(s):
    with bf16():
        pass
    with bf16():
        y = s.x + s.w[:4]
    return y.sum()


@whole
def dropout(s):
    with bf16():
        return F.dropout(s.x @ s.w, 0.5).square().sum()


class Scaled(torch.autograd.Function):
    """Saves one tensor with `save_for_backward`, which passes it through the hooks, and another on `ctx`, which doesn't."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x)
        ctx.y = y
        return x * y

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.y, grad * x


@whole
def a_function(s):
    with bf16():
        y = s.x @ s.w
        return Scaled.apply(y, y.sin()).sum()


@whole
def raises_and_handles(s):
    try:
        with bf16():
            y = s.x @ s.w
            raise KeyError("on purpose")
    except KeyError:
        y = (s.x @ s.w).sin()
    return y.sum()


@whole
def attention(s):
    q = (s.x @ s.w).reshape(1, 2, 2, 6)
    with bf16():
        return F.scaled_dot_product_attention(q, q, q).sum()


@whole
def asks_twice(s):
    with bf16():
        y = (s.x @ s.w).sin().sum()
    (g,) = torch.autograd.grad(y, s.w, create_graph=True)
    return g.square().sum()


@whole
def asks_inside(s):
    with bf16():
        y = (s.x @ s.w).sin().sum()
        (g,) = torch.autograd.grad(y, s.w)
        return (s.w * g).square().sum()


@partly
def parameters_are_left_alone(s):
    def pack(t):
        return t if isinstance(t, nn.Parameter) else t.half()

    with saved_tensors_hooks(pack, lambda t: t.float()):
        return s.model(s.x).square().sum()


# Hooks that are set natively.


@split
def notes(s):
    def pack(t):
        s.seen.append(tuple(t.shape))
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        y = (s.x @ s.w).sin()
    return y.exp().sum()


@split
def notes_for_one_shape(s):
    """The first tensors that are saved don't show it."""

    def pack(t):
        if t.dim() == 1:
            s.seen.append(tuple(t.shape))
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        y = (s.x @ s.w).sin().sum(1)
        y = y.exp()
    return y.sum()


@split
def notes_behind(s):
    with saved_tensors_hooks(lambda t: t, lambda t: s.seen.append(1) or t):
        y = (s.x @ s.w).sin()
    return y.exp().sum()


@split
def reads_a_global(s):
    with saved_tensors_hooks(lambda t: t * scale_of_all, lambda t: t / scale_of_all):
        y = (s.x @ s.w).sin()
    return y.exp().sum()


@split
def reads_an_attribute(s):
    with saved_tensors_hooks(lambda t: t * s.scale, lambda t: t):
        y = (s.x @ s.w).sin()
    s.scale += 1
    return y.exp().sum()


@split
def reads_a_variable_that_changes(s):
    factor = 2
    with saved_tensors_hooks(lambda t: t, lambda t: t * factor):
        y = (s.x @ s.w).sin()
    factor = 3
    return y.exp().sum()


@split
def computes_with_another_tensor(s):
    half = s.x.mean()
    with saved_tensors_hooks(lambda t: t * half, lambda t: t):
        y = (s.x @ s.w).sin()
    return y.exp().sum()


@split
def draws(s):
    with saved_tensors_hooks(lambda t: t + torch.rand_like(t), lambda t: t):
        y = (s.x @ s.w).sin()
    return y.exp().sum()


@split
def decides_by_data(s):
    with saved_tensors_hooks(lambda t: t * 2 if t.sum() > 0 else t, lambda t: t):
        y = (s.x @ s.w).sin()
    return y.exp().sum()


@split
def gives_another_dtype(s):
    with saved_tensors_hooks(lambda t: t.double(), lambda t: t):
        y = (s.x @ s.w).sin()
    return y.exp().sum()


@split
def raises(s):
    def pack(t):
        raise ValueError("on purpose")

    with saved_tensors_hooks(pack, lambda t: t):
        y = (s.x @ s.w).sin()
    return y.sum()


@split
def a_break_inside(s):
    with bf16():
        y = (s.x @ s.w).sin()
        print(end="")
        y = y.exp().sin()
    return y.exp().sum()


@split
def with_a_checkpoint(s):
    with save_on_cpu():
        y = checkpoint(lambda t: (t @ s.w).sin(), s.x, use_reentrant=False)
    return y.sum()


@split
def inside_a_checkpoint(s):
    def part(t):
        with save_on_cpu():
            return (t @ s.w).sin()

    return checkpoint(part, s.x, use_reentrant=False).sum()


@split
def a_transform_inside(s):
    with bf16():
        return (torch.func.grad(lambda t: t.sin().sum())(s.x) @ s.w).sum()


def run(program: Callable[..., Any], wrap: Callable[..., Any], inside: bool) -> list[Any]:
    """Return the story of three calls whose backward pass runs in the compiled function (`inside`) or after it."""

    def step(s: State) -> Any:
        loss = program(s)
        loss.backward()
        return loss

    function = wrap(step if inside else program)

    def call(s: State) -> Any:
        loss = function(s)
        if not inside:
            loss.backward()
        return loss

    return story(State, call)


def compare(program: Callable[..., Any], backend: str, inside: bool) -> dict[str, Any]:
    framejit.reset()
    expected = run(program, lambda function: function, inside)
    Comparison().same(run(program, lambda function: framejit.compile(function, backend=backend), inside), expected)
    return framejit.statistics()


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", WHOLE)
def test_hooks_that_only_compute(name: str, backend: str, inside: bool) -> None:
    found = compare(WHOLE[name], backend, inside)
    split = 1 if (name, backend, inside) == ("asks_twice", "aot_eager", False) else 0
    assert found["graph_breaks"] == split and found["fallbacks"] == 0 and found["graphs"] <= 2 + split, found["reasons"]


OF_EAGER = {"notes", "draws", "gives_another_dtype"}
"""Programs that show which tensors hooks are given: with AOTAutograd, hooks that are set natively are given what that saves."""


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SPLIT)
def test_hooks_that_are_set_natively(name: str, backend: str, inside: bool) -> None:
    if backend == "eager" or name not in OF_EAGER:
        assert compare(SPLIT[name], backend, inside)["graph_breaks"] > 0


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("name", PARTLY)
@pytest.mark.only_eager("with AOTAutograd, hooks that are set natively are given what that saves")
def test_hooks_that_ask_for_a_class(name: str, inside: bool) -> None:
    assert compare(PARTLY[name], "eager", inside)["graph_breaks"] == 0


# What lies around the hooks.


def gradient(function: Callable[..., Any], w: torch.Tensor, *args: Any) -> list[float]:
    (found,) = torch.autograd.grad(function(w, *args), w)
    return found.flatten().tolist()


def weights(*sizes: int) -> torch.Tensor:
    count = torch.Size(sizes).numel()
    return torch.linspace(-1, 1, count).reshape(sizes).requires_grad_()


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_vary(backend: str) -> None:
    """Conditions that the hooks put on a size are guarded."""

    def program(w):
        with saved_tensors_hooks(lambda t: t * 2 if t.numel() > 20 else t, lambda t: t):
            return w.sin().exp().sum()

    framejit.reset()
    compiled = framejit.compile(program, backend=backend)
    for rows in (2, 3, 4, 5, 6, 7, 8):
        w = weights(rows, 4)
        assert gradient(compiled, w) == pytest.approx(gradient(program, w), rel=1e-6)
    found = framejit.statistics()
    assert found["graph_breaks"] == 0 and found["recompiles"] <= 3, found["reasons"]


def tripled(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_function_that_the_hooks_call_is_replaced(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(w):
        with saved_tensors_hooks(lambda t: tripled(t), lambda t: t):
            return w.sin().sum()

    compiled, w = framejit.compile(program, backend=backend), weights(3)
    assert gradient(compiled, w) == pytest.approx(gradient(program, w))
    monkeypatch.setitem(globals(), "tripled", torch.neg)
    assert gradient(compiled, w) == pytest.approx(gradient(program, w))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_function_is_replaced_inside(backend: str) -> None:
    """The program replaces a function that the hooks call, and puts it back. While the graph runs, the global itself still holds the old function."""

    def program(w):
        global tripled
        before, tripled = tripled, torch.neg
        with saved_tensors_hooks(lambda t: tripled(t), lambda t: t):
            y = w.sin().sum()
        tripled = before
        return y

    w = weights(3)
    assert gradient(framejit.compile(program, backend=backend), w) == pytest.approx(gradient(program, w))


@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_that_are_given(backend: str) -> None:
    """Functions with the same code share an entry."""

    def program(w, pack, unpack):
        with saved_tensors_hooks(pack, unpack):
            return w.sin().sum()

    framejit.reset()
    compiled, w = framejit.compile(program, backend=backend), weights(3)
    for _ in range(3):
        hooks = (lambda t: t * 2), (lambda t: t)
        assert gradient(compiled, w, *hooks) == pytest.approx(gradient(program, w, *hooks))
    assert framejit.statistics()["recompiles"] == 0
    hooks = (lambda t: t * 4), (lambda t: t)
    assert gradient(compiled, w, *hooks) == pytest.approx(gradient(program, w, *hooks))
    assert framejit.statistics()["graph_breaks"] == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_around_the_call(backend: str) -> None:
    """Those inside are the ones that count there."""

    def program(w):
        y = w.sin()
        with saved_tensors_hooks(lambda t: t * 3, lambda t: t):
            y = y.exp()
        return y.cos().sum()

    told = []
    for function in (program, framejit.compile(program, backend=backend)):
        w, seen = weights(5), []
        with saved_tensors_hooks(lambda t, seen=seen: seen.append(tuple(t.shape)) or t, lambda t: t):
            loss = function(w)
        loss.backward()
        told.append((w.grad.tolist(), seen if backend == "eager" else None))
    assert told[1][0] == pytest.approx(told[0][0], rel=1e-6) and told[1][1] == told[0][1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("network", [nn.LSTM, nn.GRU])
def test_a_recurrent_network(network: type[nn.Module], backend: str) -> None:
    """The tensors that a recurrent network saves aren't known while tracing, so hooks that have a side effect on one path are set natively."""
    seen: list[int] = []

    def pack(t):
        if t.dim() == 1:
            seen.append(t.numel())
        return t

    torch.manual_seed(0)
    net, x = network(3, 4), torch.randn(5, 2, 3)

    def program(net, x):
        with saved_tensors_hooks(pack, lambda t: t):
            loss = net(x)[0].sum()
        return loss, len(seen)

    told = []
    for function in (program, framejit.compile(program, backend=backend)):
        seen.clear()
        net.zero_grad()
        loss, count = function(net, x)
        loss.backward()
        told.append(([p.grad.clone() for p in net.parameters()], count if backend == "eager" else None))
    torch.testing.assert_close(told[1], told[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_graph_that_raises_takes_its_hooks_off(backend: str) -> None:
    def program(w, index):
        with bf16():
            y = w.sin()[index]
        return y.sum()

    compiled, w = framejit.compile(program, backend=backend), weights(3)
    assert gradient(compiled, w, torch.tensor([1])) == pytest.approx(gradient(program, w, torch.tensor([1])))
    with pytest.raises((IndexError, RuntimeError)):
        compiled(w, torch.tensor([7]))
    assert torch._C._autograd._top_saved_tensors_default_hooks(True) is None
    assert gradient(compiled, w, torch.tensor([2])) == pytest.approx(gradient(program, w, torch.tensor([2])))


def test_a_backend_that_fails_leaves_no_hooks() -> None:
    """AOTAutograd runs the graph while it traces."""

    def program(w):
        with bf16():
            return torch.exp(w.sin()).sum()

    def fails(gm: Any, examples: Any) -> Any:
        nodes = gm.graph.find_nodes(op="call_function", target=torch.exp)
        nodes[0].target = fail
        gm.recompile()
        return BACKEND.call(gm, examples)

    def fail(tensor: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("on purpose")

    backend: Any = dataclasses.replace(BACKEND, call=fails)
    with pytest.raises(BackendError):
        framejit.compile(program, backend=backend)(weights(3))


@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_that_stay_in_force(backend: str) -> None:
    """Hooks that one compiled call sets stay in force after it, and another compiled call takes them off."""

    def enter(w):
        hooks = saved_tensors_hooks(lambda t: t * 2, lambda t: t)
        y = w.sin()
        hooks.__enter__()
        return y, hooks

    def leave(y, hooks):
        z = y.exp()
        hooks.__exit__(None, None, None)
        return z.cos().sum()

    told = []
    for wrap in (lambda function: function, lambda function: framejit.compile(function, backend=backend)):
        w = weights(3)
        y, hooks = wrap(enter)(w)
        in_force = torch._C._autograd._top_saved_tensors_default_hooks(True)
        assert in_force == (hooks.pack_hook, hooks.unpack_hook)
        y = y.sin()
        wrap(leave)(y, hooks).backward()
        told.append(w.grad.tolist())
    assert told[1] == pytest.approx(told[0], rel=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_context_manager_of_the_programs(backend: str) -> None:
    @contextlib.contextmanager
    def halves(factor):
        with saved_tensors_hooks(lambda t: t * factor, lambda t: t / factor):
            yield

    def program(w):
        with halves(1.5):
            y = w.sin()
        return y.exp().sum()

    framejit.reset()
    w = weights(3)
    assert gradient(framejit.compile(program, backend=backend), w) == pytest.approx(gradient(program, w), rel=1e-6)
    assert framejit.statistics()["graph_breaks"] == 0


def test_what_is_packed_is_kept() -> None:
    """AOTAutograd saves what the hooks pack, and not what they unpack it to."""
    torch.manual_seed(0)
    model, x = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(3)]), torch.randn(128, 64)

    def program(x, hooks):
        with hooks:
            return model(x).sum()

    def kept(hooks: Any) -> set[torch.dtype]:
        loss: Any = framejit.compile(program, backend="aot_eager")(x, hooks)
        return {tensor.dtype for tensor in loss.grad_fn.saved_tensors if tensor.size() == (128, 64) and tensor is not x}

    assert kept(contextlib.nullcontext()) == {torch.float32}
    assert kept(saved_tensors_hooks(quantised, dequantised)) == {torch.int8}


@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_that_move_tensors(backend: str) -> None:
    """AOTAutograd may move them when the backward pass comes: there, such hooks are set natively."""

    def program(w):
        with saved_tensors_hooks(lambda t: (t.clone(), t.to("meta")), lambda packed: packed[0].to(packed[1].dtype)):
            return w.sin().sum()

    framejit.reset()
    w = weights(3)
    assert gradient(framejit.compile(program, backend=backend), w) == pytest.approx(gradient(program, w))
    assert framejit.statistics()["graph_breaks"] == (0 if backend == "eager" else 2)
