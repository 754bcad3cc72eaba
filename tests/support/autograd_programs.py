"""Programs about what autograd and aliasing make visible of a tensor: whether it is a leaf, what shares its memory, what its gradient is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

LEAVES: list[torch.Tensor] = []
"""The leaves that were made for the last arguments."""
PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {}
"""By name: the program, and the function that makes its arguments."""


def plain() -> tuple[Any, ...]:
    return (torch.arange(6.0).reshape(2, 3) / 5 + 0.1,)


def leaf() -> tuple[Any, ...]:
    LEAVES[:] = [(torch.arange(6.0).reshape(2, 3) / 5).requires_grad_()]
    return tuple(LEAVES)


def inner() -> tuple[Any, ...]:
    """Return a tensor that was computed from a leaf."""
    return (leaf()[0] * 1.5,)


def two_inner() -> tuple[Any, ...]:
    x = inner()[0]
    return x + 1, x * 2


def leaf_and_plain() -> tuple[Any, ...]:
    return *leaf(), *plain()


def inner_and_plain() -> tuple[Any, ...]:
    return *inner(), *plain()


def program(*arguments: Callable[[], tuple[Any, ...]]) -> Callable[[Any], Any]:
    def register(fn: Any) -> Any:
        for make in arguments:
            PROGRAMS[f"{fn.__name__}-{make.__name__}"] = fn, make
        return fn

    return register


# Leaves.


@program(plain, leaf)
def a_leaf_of_a_result(x):
    y = (x + 1).detach().requires_grad_(True)
    return y, y * 2


@program(plain, leaf)
def a_leaf_by_assignment(x):
    y = x.detach() * 2
    y.requires_grad = True
    return y, (y * x).sum()


@program(plain, leaf)
def a_leaf_that_stays_inside(x):
    y = (x * 3).detach().requires_grad_()
    z = y.sin() * x
    return z.sum()


@program(plain)
def a_leaf_from_a_factory(x):
    w = torch.ones(3, requires_grad=True)
    return w, x * w


@program(plain)
def a_leaf_from_data(x):
    w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    return w, (x * w).sum()


@program(plain)
def a_parameter_made_inside(x):
    w = nn.Parameter(x.mean(0))
    return w, x @ w


@program(plain, leaf)
def a_flag_that_is_set_and_taken_back(x):
    y = (x + 1).detach()
    y.requires_grad_()
    y.requires_grad_(False)
    return y, y * x


@program(plain, leaf)
def a_flag_that_is_read(x):
    y = x * 2
    z = y.detach()
    return y.requires_grad, y.is_leaf, z.requires_grad, z.is_leaf, y if z.requires_grad else y + 1


@program(inner, plain)
def detached_in_place(x):
    x.detach_()
    return x * 2


@program(leaf, plain)
def a_result_detached_in_place(x):
    y = x * 2
    z = y + 1
    y.detach_()
    return y, z, y * x


@program(leaf, plain)
def a_result_detached_in_place_after_change(x):
    y = x.clone()
    y.mul_(3).detach_()
    return y, y + x


@program(leaf, plain)
def data_that_is_read(x):
    y = x.data * 2
    return y, x.data, y + x


@program(leaf, plain)
def data_that_is_written(x):
    y = x * 2
    y.data.add_(1)
    return y


@program(leaf)
def data_of_an_argument_that_is_written(x):
    x.data.mul_(2)
    return x * 1


@program(leaf_and_plain, inner_and_plain)
def data_of_an_argument_that_is_averaged(x, y):
    x.detach().lerp_(y, 0.5)
    y.data.copy_(x.detach())
    return x * y


@program(leaf_and_plain, inner_and_plain)
def recorded_changes_of_a_detached_argument(x, y):
    a, b = y.data, x.data[1:]
    a[0] = x.sum()
    b += y[0] + a[1] * 2
    return a, b, a * 2


@program(leaf_and_plain, inner_and_plain)
def a_view_of_a_detached_argument_changed_with_a_record(x, y):
    a = y.detach()
    a[:, 1:] = x.sum()
    return a[1], y * 2


@program(leaf, inner, plain)
def an_argument_as_result(x):
    return x, x * 2, x.detach(), x.view(-1)


# Views with a backward of their own.


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


@program(leaf, inner)
def reversed_beside_what_it_is_made_of(x):
    y = x * 2
    return Reversed.apply(y), y


@program(leaf, inner)
def reversed_beside_its_data(x):
    y = Reversed.apply(x * 2)
    return y, y.detach()


@program(leaf, inner)
def views_of_what_is_reversed(x):
    y = Reversed.apply(x)
    return y[1:], y.view(-1), *Reversed.apply(x * 3).unbind(0)


class Returned(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x, x > 0

    @staticmethod
    def backward(ctx, gradient, _):
        return -gradient


@program(leaf, inner)
def returned_as_it_is(x):
    return Returned.apply(x)[0].t()


@program(leaf, inner)
def returned_as_it_is_beside_its_data(x):
    y = Returned.apply(x * 2)[0]
    return y, y.detach()


class ShapedAgain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return (x * 2).view(-1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.view(2, 3) * 5


@program(leaf, inner)
def a_view_of_what_a_function_makes(x):
    y = ShapedAgain.apply(x)
    return y, y.detach(), y[1:]


@program(leaf, inner)
def reversed_in_a_checkpoint_beside_its_argument(x):
    y = x * 2
    return checkpoint(Reversed.apply, y, use_reentrant=False), y, checkpoint(lambda t: (t.sin(), Reversed.apply(t)[1:]), x, use_reentrant=False)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Raised(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x + 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3


@program(leaf, inner)
def a_function_of_a_view_that_has_no_record(x):
    with torch.no_grad():
        y = x.view(-1)
    return Raised.apply(y)


@program(plain, leaf, inner)
def arguments_that_functions_return_without_gradients(x):
    with torch.no_grad():
        y, z = Doubled.apply(x), Same.apply(x)
        w = Reversed.apply(x)
    return y, z, w


# Own gradients and hooks.


@program(leaf, inner)
def a_gradient_that_is_kept(x):
    y = x * 2
    y.retain_grad()
    return y, (y * y).sum()


@program(leaf, inner)
def a_gradient_that_is_kept_late(x):
    y = x * 2
    z = (y * y).sum()
    y.retain_grad()
    return y, z, y + 1


@program(leaf, inner)
def a_hook(x):
    y = x * 2
    y.register_hook(lambda g: g * 10)
    return (y * y).sum()


@program(leaf, inner)
def a_hook_behind_uses(x):
    y = x * 2
    z = y.sin()
    v = y.view(-1)
    y.register_hook(lambda g: g * 10)
    return z, v * 2, y


@program(leaf, inner)
def a_hook_behind_a_change(x):
    y = x * 2
    y.mul_(3)
    z = y + 1
    y.register_hook(lambda g: g * 10)
    return z, y


@program(leaf, inner)
def a_hook_on_one_of_two(x):
    a, b = (x * 2).chunk(2)
    c = a * b
    a.register_hook(lambda g: g * 10)
    return c, a, b


@program(inner)
def a_hook_on_an_argument_that_was_changed(x):
    x.mul_(2)
    y = x.sin()
    x.register_hook(lambda g: g * 10)
    return y, x + 1


@program(leaf, inner)
def a_hook_on_an_argument(x):
    y = x * 2
    x.register_hook(lambda g: g * 10)
    return y + x


@program(leaf, inner)
def a_hook_in_a_loop(x):
    total = 0
    for i in range(3):
        y = x * i
        total = total + y.sin()
        y.register_hook(lambda g: g * 10)
    return total


@program(leaf, inner)
def the_gradient_of_an_intermediate(x):
    y = x * 2
    z = (y**3).sum()
    (g,) = torch.autograd.grad(z, y, create_graph=True)
    return g, (g * x).sum()


@program(leaf, inner)
def the_gradients_of_several(x):
    y = x.exp()
    w = y * 2
    z = (y * w).sum()
    gs = torch.autograd.grad(z, [y, w], retain_graph=True)
    return z, gs


@program(plain)
def the_gradient_of_a_leaf_made_inside(x):
    y = x.clone().requires_grad_()
    z = (y**2).sum()
    z.backward()
    return y.grad, y, z.detach()


@program(leaf)
def backward_of_what_is_computed(x):
    y = x * 2
    y.sum().backward(inputs=[x])
    return x.grad * 1


@program(leaf, inner)
def an_operator_that_is_looked_at(x):
    y = x * 2
    z = y.sin()
    return y.grad_fn.name(), y.grad_fn.next_functions[0][0].name(), z, y


# Modes.


@program(leaf, inner)
def under_no_grad(x):
    with torch.no_grad():
        y = x * 2
        v = x.view(-1)
    return y, v, y * x


@program(leaf, inner)
def grad_again_inside_no_grad(x):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
        c = b * 2
    return a, b, c


@program(leaf, inner)
def a_switch_in_the_middle(x):
    a = x * 2
    torch.set_grad_enabled(False)
    b = a * 2
    torch.set_grad_enabled(True)
    c = b + a
    return a, b, c


@torch.no_grad()
@program(leaf, inner)
def grad_inside_a_call_without(x):
    y = x + 1
    with torch.enable_grad():
        z = (x * y).sin()
    return z, z + 1


def called_without_grad(x):
    y = x + 1
    with torch.enable_grad():
        z = (x * y).sin()
    return y, z, z + 1


@program(leaf, plain)
def inference(x):
    with torch.inference_mode():
        y = x * 2
    return y.is_inference(), y.requires_grad, x + 1


# Aliasing and mutation.


@program(leaf, inner, plain)
def views_as_results(x):
    return x.view(-1), x[0], x.t(), x[:, 1:], x.expand(4, 2, 3)


@program(leaf, inner, plain)
def views_of_a_result(x):
    y = x * 2
    return y, y.view(-1), y[0], y.detach()


@program(leaf, inner, plain)
def views_of_what_stays_inside(x):
    y = x * 2
    return y.view(-1), y[0]


@program(leaf, inner, plain)
def the_same_twice(x):
    y = x * 2
    return y, y, y.detach(), y.detach()


@program(inner, plain)
def changed_in_place(x):
    x.mul_(2)
    return x + 1


@program(two_inner, leaf_and_plain)
def changed_by_another(y, x):
    if y.is_leaf:
        y = y + 1
    y.mul_(x)
    return y + 1


@program(two_inner, inner_and_plain)
def changed_where_it_is_saved(y, x):
    z = y * x
    y.add_(1)
    return z


@program(two_inner, inner_and_plain)
def divided_in_place(y, x):
    y.div_(x + 1)
    y.exp_()
    return y.sum()


@program(inner, plain)
def changed_through_a_view(x):
    x[0].add_(1)
    x.view(-1)[2:4] = 7
    return x * 2


@program(inner, plain)
def changed_and_viewed(x):
    v = x[0]
    x.add_(1)
    return v, x.view(-1), v * 2


@program(leaf)
def a_leaf_changed_without_grad(x):
    with torch.no_grad():
        x.add_(1)
        x[0].mul_(2)
    return x * 2


@program(leaf_and_plain, inner_and_plain)
def a_plain_one_changed_by_one_with_a_gradient(x, y):
    y.mul_(x)
    return y + 1


@program(leaf_and_plain, inner_and_plain)
def part_of_a_plain_one_changed_by_one_with_a_gradient(x, y):
    y[0] = x[1]
    return y.sum()


@program(plain, inner)
def metadata_changed_in_place(x):
    x.unsqueeze_(0)
    y = x * 2
    x.squeeze_(0).t_()
    return y, x


@program(leaf, plain)
def metadata_of_a_result_changed_in_place(x):
    y = x * 2
    y.unsqueeze_(0).transpose_(0, 1)
    return y, y.shape


@program(leaf, plain)
def strides(x):
    return x.t() * 2, x.t().contiguous(), (x * 2).t(), torch.empty_like(x.t()).fill_(1), x.permute(1, 0).clone()


# Sizes.


@program(plain)
def out_of_another_size(x):
    o = torch.empty(0)
    torch.add(x, 1, out=o)
    return o, o * 2


@program(leaf_and_plain)
def an_argument_as_out(x, o):
    with torch.no_grad():
        torch.mul(x, 2, out=o)
    return o + 1


@program(leaf_and_plain)
def an_argument_as_out_of_another_size(x, o):
    o = o[:0, 0].clone() if o.dim() == 2 else o
    with torch.no_grad():
        torch.mul(x, 2, out=o)
    return o + 1


@program(plain)
def several_outs(x):
    v, i = torch.empty(0), torch.empty(0, dtype=torch.long)
    torch.sort(x, out=(v, i))
    m, j = torch.empty(2), torch.empty(2, dtype=torch.long)
    torch.max(x, 1, out=(m, j))
    return v, i, m, j


@program(plain)
def an_argument_that_is_resized(x):
    x.resize_(3, 4)
    x.fill_(2)
    return x + 1


@program(plain)
def an_argument_that_is_made_smaller(x):
    x.resize_(2)
    return x + 1


@program(plain)
def a_result_that_is_resized(x):
    y = x * 2
    y.resize_(3, 2)
    z = y.clone()
    z.resize_(9).fill_(1)
    return y, z


@program(plain)
def resized_as_another(x):
    y = torch.zeros(1)
    y.resize_as_(x)
    y.copy_(x)
    return y


@program(plain)
def set_to_another(x):
    y = torch.zeros(1)
    y.set_(x)
    return y + 1


@program(plain)
def out_of_the_same_number_of_elements(x):
    o = torch.empty(0).resize_(6)
    torch.add(x[:1], 1, out=o.resize_(0))
    return o


# Operators that draw random numbers, and those with a state.


@program(leaf)
def dropout(x):
    return F.dropout(x * 2, 0.5)


@program(plain)
def random_numbers(x):
    return x + torch.rand_like(x), torch.randn(3), torch.randint(0, 5, (4,)), x.clone().normal_(), torch.bernoulli(x.clamp(0, 1))


@program(leaf)
def attention(x):
    q = torch.stack([x, x * 2])[None]  # of three dimensions, the result would be a view of what autograd saves (docs/limits.md)
    return F.scaled_dot_product_attention(q, q, q, is_causal=True)


@program(leaf)
def normalised(x):
    return F.layer_norm(x, (3,)), F.batch_norm(x, None, None, training=True), F.softmax(x, -1)
