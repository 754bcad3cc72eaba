"""autograd.Functions inside torch.func's transforms: values, gradients at each level and around the transforms, and what runs natively."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import close
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.utils import _pytree as pytree

import framejit

BACKENDS = ("eager", "aot_eager")


class Scaled(Function):
    """Gradients are another function than the true ones, and computed from the result, too."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, w: Any) -> Any:
        return x * x * w, x.sum()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.factor = 3
        ctx.save_for_backward(*inputs, output[0])

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        x, w, result = ctx.saved_tensors
        return ctx.factor * x * g * w * result + h if ctx.needs_input_grad[0] else None, (x * x * g).sum_to_size(w.shape)


class Pushed(Function):
    """Its tangents are others than its gradients."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, w: Any, factor: Any) -> Any:
        return x * x * w, x.sum(), x.argmax()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.factor = inputs[2]
        ctx.save_for_backward(*inputs[:2], output[0])
        ctx.save_for_forward(*inputs[:2])
        ctx.mark_non_differentiable(output[2])

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any, _: Any) -> Any:
        x, w, result = ctx.saved_tensors
        return ctx.factor * x * g * w * result + h, (x * x * g).sum_to_size(w.shape), None

    @staticmethod
    def jvp(ctx: Any, t: Any, u: Any, _: Any) -> Any:
        x, w = ctx.saved_tensors
        return 5 * t * x * w + u * ctx.factor * x, t.sum() * 3, None


class Reversed(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, factor: Any) -> Any:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return -ctx.factor * g, None


class Once(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        return 5 * g


class Several(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x.sin(), x.argmax(), x.cos()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, g: Any, _: Any, h: Any) -> Any:
        (x,) = ctx.saved_tensors
        result = torch.zeros_like(x)
        if g is not None:
            result = result + g * 7
        return result if h is None else result + h * x * 11


class Ruled(Function):
    """Has another gradient than it should have, and a rule for vmap that gives something else, so that it shows which was used. `seen`: what rules are told."""

    seen: list[Any] = []

    @staticmethod
    def forward(x: Any, w: Any, factor: float) -> Any:
        return x * w * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, w, ctx.factor = inputs
        ctx.save_for_backward(x, w)
        ctx.save_for_forward(x, w)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return g * w * 5, g * x * 7, None

    @staticmethod
    def jvp(ctx: Any, x_tangent: Any, w_tangent: Any, _: Any) -> Any:
        x, w = ctx.saved_tensors
        return x_tangent * w * 5 + w_tangent * x * 7

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, w: Any, factor: float) -> Any:
        Ruled.seen.append((info.batch_size, info.randomness, in_dims))
        x, w = (t.expand(info.batch_size, *t.shape) if dim is None else t.movedim(dim, 0) for t, dim in zip((x, w), in_dims))
        return Ruled.apply(x, w, factor) * 11, 0


class Shared(Function):
    """Its rule for vmap maps along the last dimension, and gives a result that all items share."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x.sin(), x.cos()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        return g * 3 + h * ctx.saved_tensors[0]

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        return (x.movedim(in_dims[0], -1).sin() * 2, x.sum(in_dims[0])), (-1, None)


def ruled(x, w):
    return vmap(lambda a: Ruled.apply(a, w, 2.0))(x), vmap(lambda a: a * Ruled.apply(w, w, 2.0))(x)


def ruled_twice(x, w):
    return vmap(vmap(lambda a, b: Ruled.apply(a, b, 2.0), in_dims=(0, None)), in_dims=(None, 0))(x, torch.stack([w, w * 2]))


def ruled_per_sample(x, w):
    return vmap(grad(lambda a, b: Ruled.apply(a.sin(), b, 2.0).sum(), argnums=(0, 1)), in_dims=(0, None))(x, w)


def ruled_within(x, w):
    return grad(lambda y: vmap(lambda a: Ruled.apply(a, w, 2.0))(y).sum())(x), jvp(lambda y: vmap(lambda a: Ruled.apply(a, w, 2.0))(y), (x,), (x,))


def ruled_jacobians(x, w):
    return vmap(jacrev(lambda a: Ruled.apply(a, w, 2.0)))(x), jacfwd(lambda a: Ruled.apply(a, w, 2.0))(x[0])


def ruled_and_pushed(x, w):
    return vmap(lambda a: jvp(lambda b: Ruled.apply(b, w, 2.0), (a,), (a,)))(x)


def with_a_shared_result(x, w):
    return vmap(Shared.apply)(x), vmap(Shared.apply, in_dims=1)(x), vmap(grad(lambda a: Shared.apply(a)[0].sum()))(x)


RULED = (ruled, ruled_twice, ruled_per_sample, ruled_within, ruled_jacobians, ruled_and_pushed, with_a_shared_result)


class Computed(Function):
    """Keeps what it computes in its `setup_context`, where each level of a transform does that."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x.exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.twice = output * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.twice


def total(x, w):
    return sum(result.sum() for result in Scaled.apply(x, w))


def mapped(x, w):
    return vmap(Scaled.apply, in_dims=(0, None))(x, w)


def mapped_twice(x, w):
    return vmap(vmap(Scaled.apply, in_dims=(0, None)), in_dims=(None, 0))(x, torch.stack([w, w * 2]))


def gradients(x, w):
    return grad(total, argnums=(0, 1))(x, w)


def per_sample(x, w):
    return vmap(grad(total, argnums=(0, 1)), in_dims=(0, None))(x, w)


def of_what_is_mapped(x, w):
    return grad(lambda x, w: sum(result.sum() for result in mapped(x, w)), argnums=(0, 1))(x, w)


def twice(x, w):
    return grad(lambda y: grad(total)(y, w).pow(2).sum())(x)


def jacobians(x, w):
    return jacrev(lambda y: Scaled.apply(y, w))(x[0]), jacrev(jacrev(lambda y: total(y, w)))(x[0])


def pulled_back(x, w):
    return vjp(lambda y: Scaled.apply(y, w), x)[1]((x, x[0, 0]))


def with_views(x, w):
    return grad(lambda y: (Reversed.apply(y * 2, 0.3) * w).sum())(x), vmap(lambda y: Reversed.apply(y, 2.0) * w)(x)


def that_differentiates_once(x, w):
    first = grad(lambda y: (Once.apply(y * 2) * w).sum())(x)
    return first, vmap(lambda y: Once.apply(y) * w)(x)


def of_several_results(x, w):
    return grad(lambda y: (Several.apply(y)[0] * w).sum())(x), vmap(Several.apply)(x), vmap(grad(lambda y: Several.apply(y)[2].sum()))(x)


def without_grad_inside(x, w):
    def f(y):
        with torch.no_grad():
            (z, _) = Scaled.apply(y, w)
        return (y * z).sum()

    return grad(f)(x)


def pushed_total(x, w):
    return sum(result.sum() for result in Pushed.apply(x, w, 3)[:2])


def pushed(x, w):
    return jvp(lambda y, w: Pushed.apply(y, w, 3), (x, w), (x * 2, w)), jacfwd(lambda y: Pushed.apply(y, w, 3)[:2])(x[0])


def pushed_twice(x, w):
    return jvp(lambda y: jvp(lambda z: Pushed.apply(z, w, 3)[0], (y,), (y * w,)), (x,), (x,))


def second_derivatives(x, w):
    y, v = x.detach(), w.detach()
    return hessian(lambda a: pushed_total(a, v))(y[0]) * w, vmap(hessian(lambda a: pushed_total(a, v)))(y) * x[0]


def pushed_in_gradients(x, w):
    return grad(lambda y: jvp(lambda z: pushed_total(z, w), (y,), (x,))[1])(x), jvp(grad(lambda z: pushed_total(z, w)), (x,), (x,))


WHOLE = (
    pushed, pushed_twice, second_derivatives, pushed_in_gradients,
    mapped, mapped_twice, gradients, per_sample, of_what_is_mapped, twice, jacobians, pulled_back, with_views, that_differentiates_once,
    of_several_results, without_grad_inside,
)  # fmt: skip


def that_keeps_what_it_computes(x, w):
    return grad(lambda y: grad(lambda z: Computed.apply(z * w).sum())(y).sum())(x) * w


def without_a_rule_for_vmap(x, w):
    return vmap(Computed.apply)(x)


def without_a_jvp(x, w):
    return jvp(lambda y: Scaled.apply(y, w), (x,), (x,))


def told(call: Any) -> list[Any]:
    torch.manual_seed(0)
    x, w = torch.randn(4, 3, requires_grad=True), torch.randn(3, requires_grad=True)
    try:
        leaves = pytree.tree_leaves(call(x, w))
    except (RuntimeError, NotImplementedError) as error:
        return [str(error)]
    found = torch.autograd.grad(sum([leaf.sum() for leaf in leaves if leaf.requires_grad]), [x, w], allow_unused=True)
    return [[leaf.requires_grad for leaf in leaves], *[leaf.detach() for leaf in leaves], *found]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [*WHOLE, *RULED])
def test_one_graph(program: Any, backend: str) -> None:
    framejit.reset()
    Ruled.seen.clear()
    expected, compiled = told(program), framejit.compile(program, backend=backend, fullgraph=True)
    seen = list(Ruled.seen)
    for calls in (2, 3):
        close(told(compiled), expected, None)
        assert Ruled.seen == seen * calls
    assert framejit.statistics()["graphs"] == 1, framejit.statistics()


def test_a_rule_is_told_what_varies() -> None:
    """The number of items, which is symbolic, and what random numbers do."""
    framejit.reset()

    def program(x, w):
        return vmap(lambda a: Ruled.apply(a, w, 2.0), randomness="different")(x)

    compiled = framejit.compile(program, backend="eager", dynamic=True, fullgraph=True)
    for count in (4, 5, 6):
        x, w = torch.randn(count, 3), torch.randn(3)
        Ruled.seen.clear()
        torch.testing.assert_close(compiled(x, w), program(x, w))
        assert Ruled.seen == [(count, "different", (0, None, None))] * 2
    assert framejit.statistics()["graphs"] == 1, framejit.statistics()


@pytest.mark.parametrize("program", [that_keeps_what_it_computes, without_a_rule_for_vmap, without_a_jvp])
def test_natively(program: Any) -> None:
    framejit.reset()
    close(told(framejit.compile(program, backend="eager")), told(program), None)
    assert "FJ065" in str(framejit.statistics()["reasons"])


def test_inside_a_compiled_training_step() -> None:
    def step(x, w):
        loss = vmap(lambda row: Scaled.apply(row, w)[0])(x).pow(2).mean()
        return torch.autograd.grad(loss, [x, w])

    torch.manual_seed(0)
    x, w = torch.randn(4, 3, requires_grad=True), torch.randn(3, requires_grad=True)
    for backend in BACKENDS:
        framejit.reset()
        torch.testing.assert_close(framejit.compile(step, backend=backend)(x, w), step(x, w))
