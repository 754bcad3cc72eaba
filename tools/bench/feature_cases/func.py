"""torch.func: transforms of functions, composed with one another and with autograd around them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, stack_module_state, vjp, vmap
from torch.nn import functional as F

from tools.bench.feature_cases.feature import feature


class Perceptron(nn.Module):
    """`drops`: how much its dropout drops."""

    def __init__(self, drops: float = 0.0) -> None:
        super().__init__()
        self.into, self.out, self.drop = nn.Linear(6, 8), nn.Linear(8, 3), nn.Dropout(drops)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.drop(torch.tanh(self.into(x))))


def loss_of(module: nn.Module, parameters: Any, x: torch.Tensor) -> torch.Tensor:
    return functional_call(module, parameters, (x,)).pow(2).mean()


def a_module() -> tuple[Any, ...]:
    return Perceptron(), torch.randn(4, 6)


class Squared(torch.autograd.Function):
    """With another gradient than the true one."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return 3 * ctx.saved_tensors[0] * gradient

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor) -> torch.Tensor:
        return 3 * ctx.saved_tensors[0] * tangent


@feature("vmap of an autograd.Function with generate_vmap_rule")
def function_mapped(x: torch.Tensor) -> Any:
    return vmap(lambda row: Squared.apply(row).sum())(x)


@feature("per-sample gradients through an autograd.Function")
def function_per_sample(x: torch.Tensor) -> Any:
    return vmap(grad(lambda row: Squared.apply(row.sin()).sum()))(x)


@feature("jvp and jacfwd of an autograd.Function with a jvp")
def function_pushed(x: torch.Tensor) -> Any:
    return jvp(lambda y: Squared.apply(y).sum(), (x,), (x,)), jacfwd(lambda y: Squared.apply(y))(x[0])


@feature("vmap")
def mapped(x: torch.Tensor) -> Any:
    return vmap(lambda row: row.sin() * row.sum())(x)


@feature("vmap with in_dims and out_dims of structures")
def structures(x: torch.Tensor) -> Any:
    return vmap(lambda d, y: (d["a"] @ y, {"twice": d["a"] * 2}), in_dims=({"a": 1}, None), out_dims=(0, -1))({"a": x}, x[:, 0])


@feature("vmap inside vmap")
def mapped_twice(x: torch.Tensor) -> Any:
    return vmap(vmap(torch.mul, in_dims=(0, None)), in_dims=(None, 0), out_dims=1)(x[0], x[:, 1])


@feature("vmap in chunks")
def chunks(x: torch.Tensor) -> Any:
    return vmap(lambda row: row.softmax(0), chunk_size=3)(x)


@feature("vmap over linear algebra", lambda: (torch.randn(5, 3, 3, requires_grad=True), torch.randn(5, 3)))
def linear_algebra(a: torch.Tensor, b: torch.Tensor) -> Any:
    return vmap(lambda m, v: torch.linalg.solve(m @ m.T + 3 * torch.eye(3), v))(a, b), vmap(torch.linalg.det)(a)


@feature("vmap of code that looks at shapes")
def looks(x: torch.Tensor) -> Any:
    return vmap(lambda row: row.view(2, -1).sum(0) if row.dim() == 1 and row.shape[0] == 6 else row)(x)


@feature("vmap with different random numbers", lambda: (Perceptron(0.5), torch.randn(4, 6)))
def different(module: nn.Module, x: torch.Tensor) -> Any:
    return vmap(module, randomness="different")(x)


@feature("vmap with the same random numbers")
def same(x: torch.Tensor) -> Any:
    return vmap(lambda row: F.dropout(row, 0.5) + torch.randn(6), randomness="same")(x)


@feature("vmap of a function that changes its own tensors")
def in_place(x: torch.Tensor) -> Any:
    def f(row: torch.Tensor) -> torch.Tensor:
        result = torch.zeros_like(row)
        result[0] = row[1]
        return result.add_(row)

    return vmap(f)(x)


@feature("grad")
def gradient(x: torch.Tensor) -> Any:
    return grad(lambda y: (y.sin() * x.detach()).sum())(x)


@feature("grad_and_value with has_aux and argnums")
def values(x: torch.Tensor) -> Any:
    return grad_and_value(lambda a, b: ((a * b).sum(), {"product": a * b}), argnums=(0, 1), has_aux=True)(x, x.cos())


@feature("grad of grad")
def second(x: torch.Tensor) -> Any:
    return grad(lambda y: grad(lambda z: (z**3).sum())(y).pow(2).sum())(x)


@feature("per-sample gradients", a_module)
def per_sample(module: nn.Module, x: torch.Tensor) -> Any:
    return vmap(grad(lambda p, row: loss_of(module, p, row)), in_dims=(None, 0))(dict(module.named_parameters()), x)


@feature("per-sample gradients, clipped and summed", a_module)
def private(module: nn.Module, x: torch.Tensor) -> Any:
    gradients = vmap(grad(lambda p, row: loss_of(module, p, row)), in_dims=(None, 0))({k: p.detach() for k, p in module.named_parameters()}, x)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
    return {k: (g * (1 / norms.clamp(min=1)).view(-1, *[1] * (g.dim() - 1))).sum(0) for k, g in gradients.items()}


@feature("an ensemble of stacked modules", lambda: ([Perceptron() for _ in range(3)], torch.randn(4, 6)))
def ensemble(modules: list[nn.Module], x: torch.Tensor) -> Any:
    parameters, buffers = stack_module_state(modules)
    return vmap(lambda p, b: functional_call(modules[0], (p, b), (x,)))(parameters, buffers)


@feature("functional_call with other parameters", a_module)
def other_parameters(module: nn.Module, x: torch.Tensor) -> Any:
    return functional_call(module, {name: p * 2 for name, p in module.named_parameters()}, (x,)) + module(x)


@feature("an inner loop of steps with grad", a_module)
def inner_loop(module: nn.Module, x: torch.Tensor) -> Any:
    parameters = dict(module.named_parameters())
    for _ in range(2):
        gradients = grad(lambda p: loss_of(module, p, x))(parameters)
        parameters = {name: p - 0.1 * gradients[name] for name, p in parameters.items()}
    return loss_of(module, parameters, x)


@feature("inner loops of many tasks with vmap", lambda: (Perceptron(), torch.randn(3, 4, 6)))
def tasks(module: nn.Module, batches: torch.Tensor) -> Any:
    parameters = dict(module.named_parameters())

    def adapted(x: torch.Tensor) -> torch.Tensor:
        gradients = grad(lambda p: loss_of(module, p, x))(parameters)
        return loss_of(module, {name: p - 0.1 * gradients[name] for name, p in parameters.items()}, x)

    return vmap(adapted)(batches).mean()


@feature("jacrev", a_module)
def backward_jacobian(module: nn.Module, x: torch.Tensor) -> Any:
    return jacrev(module)(x[0]), jacrev(lambda a, b: (a * b).cumsum(0), argnums=(0, 1))(x[0], x[1])


@feature("jacfwd", a_module)
def forward_jacobian(module: nn.Module, x: torch.Tensor) -> Any:
    return jacfwd(lambda y: torch.tanh(module.into(y)))(x[0])


@feature("jacobians of each row", a_module)
def row_jacobians(module: nn.Module, x: torch.Tensor) -> Any:
    return vmap(jacrev(module))(x)


@feature("hessian of a perceptron", a_module)
def hessian_of_module(module: nn.Module, x: torch.Tensor) -> Any:
    return hessian(lambda y: module(y).sum())(x[0])


@feature("hessian of each row")
def hessians(x: torch.Tensor) -> Any:
    return vmap(hessian(lambda row: row.sin().sum()))(x)


@feature("jvp with a closure")
def along(x: torch.Tensor) -> Any:
    scale = x.sum()
    return jvp(lambda y: y.sin() * scale, (x,), (torch.ones_like(x),))


@feature("vjp, its function called twice")
def pulled(x: torch.Tensor) -> Any:
    result, back = vjp(lambda y: (y.sin(), y.sum()), x)
    return result, back(result), back((result[0] * 2, result[1]))


@feature("vjp whose function is returned")
def returned(x: torch.Tensor) -> Any:
    result, back = vjp(torch.sin, x)
    return back(result)[0], callable(back) and result


@feature("linearize")
def linear(x: torch.Tensor) -> Any:
    result, push = linearize(torch.sin, x.detach())
    return result, push(x.detach())


@feature("vmap inside autograd")
def inside_autograd(x: torch.Tensor) -> Any:
    y = vmap(lambda row: (row**2).sum())(x)
    (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    return y, gradient


@feature("a transform around code that breaks")
def broken(x: torch.Tensor) -> Any:
    def f(row: torch.Tensor) -> torch.Tensor:
        print(end="")
        return row.sin().sum()

    return vmap(grad(f))(x * 2) * 3


@feature("torch.autograd.functional: jacobian and vjp")
def functional(x: torch.Tensor) -> Any:
    return torch.autograd.functional.jacobian(torch.sin, x[0]), torch.autograd.functional.vjp(lambda y: y.sum(), x[0])


@feature("torch.autograd.functional: hessian, hvp and jvp", a_module)
def functional_second(module: nn.Module, x: torch.Tensor) -> Any:
    def f(y: torch.Tensor) -> torch.Tensor:
        return module(y).pow(2).sum()

    functional = torch.autograd.functional
    return functional.hessian(f, x[0]), functional.hvp(f, x, x), functional.jvp(module, x, x)
