"""torch.func in compiled code: values, gradients, random streams, breaks inside what is transformed, and transforms around compiled functions."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import agree, close
from torch import nn
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)
from torch.utils import _pytree as pytree

import framejit

BACKENDS = ("eager", "aot_eager")


class Net(nn.Module):
    """`seen`: what the program notes besides its results."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out, self.scale = nn.Linear(3, 4), nn.Linear(4, 2), nn.Parameter(torch.tensor([0.5, 2.0, 1.5]))
        self.register_buffer("shift", torch.full((2,), 0.25))
        self.seen: list[Any] = []

    def forward(self, x: Any) -> Any:
        return self.out(torch.tanh(self.into(x))) + self.shift


def loss(m: Net, parameters: Any, x: Any) -> Any:
    return functional_call(m, parameters, (x,)).pow(2).sum()


# What is one graph.


def mapped(m, x):
    return vmap(lambda a: a.sin() * m.scale)(x)


def mapped_over_nothing(m, x):
    return vmap(lambda a, b: (a * m.scale, b.conj().imag))(x[:0], torch.complex(x, x).conj()[:0])


def mapped_along_others(m, x):
    double, plain = vmap(lambda d, y: ({"sum": d["a"] @ y, "twice": d["a"] * 2}, y), in_dims=({"a": 1}, None), out_dims=(-1, None))({"a": x.t()}, m.scale)
    return double, plain


def mapped_by_chunks(m, x):
    return vmap(m, chunk_size=2)(x)


def mapped_and_looked_at(m, x):
    def f(a, flag):
        m.seen.append((a.shape, a.dim(), a.stride(), a.numel(), len(a), a.requires_grad))
        if a.dim() == 1 and flag:
            return a.view(-1)[:2].clone()
        return a

    return vmap(f, in_dims=(1, None))(x.t(), True)


def mapped_twice(m, x):
    return vmap(vmap(lambda a, b: a * b + m.scale[0]), in_dims=(0, None), out_dims=1)(x, m.scale)


def mapped_over_linear_algebra(m, x):
    matrices = x[:, :, None] * x[:, None, :] + torch.eye(3)
    return vmap(torch.linalg.inv)(matrices), vmap(torch.linalg.solve)(matrices, x), vmap(torch.trace)(matrices)


def mapped_with_other_random_numbers(m, x):
    return vmap(lambda a: nn.functional.dropout(m(a), 0.5) + torch.rand(2), randomness="different")(x)


def mapped_with_the_same_random_numbers(m, x):
    return vmap(lambda a: nn.functional.dropout(m(a), 0.5) + torch.randn(2), randomness="same")(x)


def changed_in_place(m, x):
    def f(a):
        result = torch.zeros_like(a)
        result[0] = a[1]
        return result.add_(a).mul_(2)

    return vmap(f)(x)


def gradient(m, x):
    return grad(lambda y: (y.sin() * m.scale).sum())(x)


def gradients_and_values(m, x):
    return grad_and_value(lambda a, b: ((a * b["c"]).sum(), {"twice": a * 2, "c": b["c"]}), argnums=(1, 0), has_aux=True)(m.scale, {"c": x[0]})


def gradient_of_a_gradient(m, x):
    return grad(lambda y: grad(lambda z: (z**3 * y * m.scale).sum())(y).sum())(x[0])


def gradient_without_autograd(m, x):
    with torch.no_grad():
        return grad(lambda y: (m(y) ** 2).sum())(x) * m.scale


def gradient_with_a_part_without(m, x):
    def f(y):
        with torch.no_grad():
            z = y**2
        m.seen.append((z.requires_grad, y.requires_grad, y.is_leaf, (y * 2).is_leaf, (m.scale * 2).requires_grad, torch.is_grad_enabled()))
        return (y * z).sum()

    return grad(f)(x)


def per_sample(m, x):
    return vmap(grad(loss, argnums=1), in_dims=(None, None, 0))(m, dict(m.named_parameters()), x)


def per_sample_without_parameters(m, x):
    detached = {name: p.detach() for name, p in m.named_parameters()}
    gradients, values = vmap(grad_and_value(lambda p, a: loss(m, p, a.unsqueeze(0))), in_dims=(None, 0))(detached, x)
    return gradients, values


def with_another_call(m, x):
    return functional_call(m, {"into.weight": m.into.weight * 2, "shift": x[0, :2]}, (x,), tie_weights=False) + m(x)


def inner_loop(m, x):
    parameters = dict(m.named_parameters())
    for _ in range(2):
        gradients = grad(lambda p: loss(m, p, x) + p["scale"].sum())(parameters)
        parameters = {name: p - 0.1 * gradients[name] for name, p in parameters.items()}
    return loss(m, parameters, x)


def inner_loops(m, x):
    def adapted(a):
        parameters = {name: p for name, p in m.named_parameters() if name != "scale"}
        gradients = grad(lambda p: loss(m, p, a))(parameters)
        return loss(m, {name: p - 0.1 * gradients[name] for name, p in parameters.items()}, a)

    return vmap(adapted)(x).mean()


def jacobian_backward(m, x):
    return jacrev(lambda y, z: (m(y), (z * y).sum()), argnums=(0, 1))(x[0], m.scale)


def jacobian_backward_in_chunks(m, x):
    return jacrev(lambda y: (m(y), y * 2), has_aux=True, chunk_size=1)(x[0]), jacrev(m, chunk_size=3)(x)


def jacobian_forward(m, x):
    return jacfwd(lambda y, z: (m(y), z * y), argnums=1, has_aux=True)(x[0], m.scale), jacfwd(m)(x[0])


def second_derivatives(m, x):
    return hessian(lambda y: (y.sin() * m.scale).prod())(x[0]), jacrev(jacrev(lambda y: (m(y) ** 2).sum()))(x[1])


def second_derivatives_by_rows(m, x):
    return vmap(hessian(lambda y: (m(y) ** 2).sum()))(x), vmap(jacfwd(jacfwd(lambda y: (y**3).sum())))(x)


def along_a_tangent(m, x):
    return jvp(lambda y, z: {"a": m(y) * z["b"]}, (x, {"b": m.scale[:2]}), (x * 2, {"b": m.scale[1:]}))


def along_a_tangent_of_a_tangent(m, x):
    return jvp(lambda y: jvp(lambda z: z * z * m.scale, (y,), (y * m.scale,)), (x,), (x,))


def along_tangents(m, x):
    return vmap(lambda t: jvp(lambda y: (m(y), y.sum()), (x[0],), (t,), has_aux=True))(x), jvp(m, (x,), (x,), strict=True)


def pulled_back(m, x):
    (a, b), back = vjp(lambda y, z: (m(y), (y * z["c"]).sum()), x, {"c": m.scale})
    first = back((a * 2, b))
    return first, back((a, b * 3)), vmap(lambda row: back((row, b)))(torch.stack([a, a * 2]))


def pulled_back_through_random_numbers(m, x):
    out, back, aux = vjp(lambda y: (nn.functional.dropout(y, 0.5) * m.scale, y.sum()), x, has_aux=True)
    return out, back(torch.ones_like(out)), aux


def that_counts(m, x):
    def f(a):
        m.seen.append("called")
        return a * 2

    return vmap(f)(x)


def that_gives_what_it_is_given(m, x):
    y = x * 2
    (same, other), aux = vmap(lambda a: (a, m.scale))(y), grad_and_value(lambda a: (a.sum(), (a, m.scale)), has_aux=True)(y)
    return same, other, aux


def with_autocast_inside(m, x):
    def f(a):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return m(a).float().sum()

    return vmap(grad(f))(x.unsqueeze(1))


def that_catches_what_is_wrong_outside(m, x):
    try:
        return grad(lambda y: y.sum(), argnums=3)(x)
    except RuntimeError as error:
        m.seen.append(str(error))
        return vmap(m)(x)


class Doubled(torch.autograd.Function):
    """Has another derivative than it should have, and a rule for vmap that does something else."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 5

    @staticmethod
    def vmap(info: Any, dims: Any, x: Any) -> Any:
        return x * 7, 0


def with_a_function_of_its_own(m, x):
    return vmap(Doubled.apply)(x), grad(lambda a: Doubled.apply(a).sum())(x)


WHOLE = (
    with_a_function_of_its_own,
    mapped, mapped_over_nothing, mapped_along_others, mapped_by_chunks, mapped_and_looked_at, mapped_twice, mapped_over_linear_algebra,
    mapped_with_other_random_numbers, mapped_with_the_same_random_numbers, changed_in_place, gradient, gradients_and_values, gradient_of_a_gradient,
    gradient_without_autograd,
    gradient_with_a_part_without, per_sample, per_sample_without_parameters, with_another_call, inner_loop, inner_loops, jacobian_backward,
    jacobian_backward_in_chunks, jacobian_forward, second_derivatives, second_derivatives_by_rows, along_a_tangent,
    along_a_tangent_of_a_tangent, along_tangents, pulled_back,
    pulled_back_through_random_numbers, that_counts, that_gives_what_it_is_given, with_autocast_inside, that_catches_what_is_wrong_outside,
)  # fmt: skip


# What runs natively, in a part.


def that_breaks(m, x):
    def f(a):
        b = m(a)
        framejit.graph_break()
        return b.sum()

    return vmap(grad(f))(x * 2) * 3


def that_breaks_in_a_jacobian(m, x):
    def f(a):
        framejit.graph_break()
        return m(a)

    return jacrev(f)(x[0] * 2) * 3


def that_looks_at_data(m, x):
    return grad(lambda a: a.sum() * a[0, 0].item())(x)


def that_keeps_a_tensor(m, x):
    result = vmap(lambda a: m.seen.append(a) or a * 2)(x)
    m.seen.clear()
    return result


def that_keeps_a_tensor_in_a_variable(m, x):
    kept = None

    def f(a):
        nonlocal kept
        kept = a
        return a * 2

    result = vmap(f)(x)
    m.seen.append(torch._C._functorch.is_batchedtensor(kept))
    return result


def that_changes_what_is_outside(m, x):
    outside = torch.zeros(3)

    def f(a):
        outside.add_(1)
        return a * 2

    return vmap(f)(x), outside


def that_changes_its_argument(m, x):
    y = x * 2

    def f(a):
        a.add_(1)
        return a * 2

    return vmap(f)(y), y


def that_looks_at_what_autograd_knows(m, x):
    return vmap(lambda a: a * (2 if (m.scale * 2).requires_grad else 3) * (5 if (a * m.scale).requires_grad else 7))(x)


def with_a_hook(m, x):
    def f(a):
        b = a * 2
        b.register_hook(lambda g: g * 3)
        return b.sum()

    return grad(f)(x)


def with_pythons_random_numbers(m, x):
    return vmap(lambda a: a * random.random())(x)


def whose_function_leaves(m, x):
    out, back = vjp(m, x)
    m.seen.append(back)
    return out + m.seen.pop()(out)[0].sum()


def whose_function_passes_a_break(m, x):
    out, back = vjp(m, x)
    framejit.graph_break()
    return back(out)


def that_asks_autograd(m, x):
    return grad(lambda a: torch.autograd.grad((a**3).sum(), a, create_graph=True)[0].sum())(x)


SPLIT = (
    that_breaks, that_breaks_in_a_jacobian, that_looks_at_data, that_keeps_a_tensor, that_keeps_a_tensor_in_a_variable, that_changes_what_is_outside,
    that_changes_its_argument, that_looks_at_what_autograd_knows, with_a_hook, with_pythons_random_numbers,
    whose_function_leaves, whose_function_passes_a_break, that_asks_autograd,
)  # fmt: skip


def told(program: Callable[..., Any], compile: Callable[[Any], Any]) -> tuple[list[Any], list[Any]]:
    """Return the results and gradients of two calls with their backward passes, and the list that the model has noted."""
    framejit.reset()
    torch.manual_seed(0)
    random.seed(0)
    net, call, found = Net(), compile(program), []
    for _ in range(2):
        x = torch.randn(4, 3, requires_grad=True)
        net.zero_grad()
        leaves, structure = pytree.tree_flatten(call(net, x))
        found += [str(structure), *[leaf.requires_grad for leaf in leaves], *[leaf.detach() for leaf in leaves]]
        roots = [leaf.sum() for leaf in leaves if leaf.requires_grad]
        if roots:
            sum(roots).backward()
        found += [x.grad, *[p.grad for p in net.parameters()], torch.rand(2)]
    return found, net.seen


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [*WHOLE, *SPLIT])
def test_transforms_give_eagers_results_and_gradients(program: Callable[..., Any], backend: str) -> None:
    """Results and gradients, with the backward pass outside of what is compiled."""
    expected = told(program, lambda f: f)
    found = told(program, lambda f: framejit.compile(f, backend=backend))
    close(found[0], expected[0], 1e-6 if backend == "eager" else 1e-5)  # AOTAutograd may sum in another order
    assert found[1] == expected[1]
    if program in WHOLE:
        assert framejit.statistics()["graphs"] == 1 and not framejit.statistics()["reasons"], framejit.statistics()
    assert torch._C._functorch.maybe_current_level() is None


def test_sizes_may_vary() -> None:
    """One entry serves batches of all sizes."""
    framejit.reset()
    net = Net()
    compiled = framejit.compile(lambda x: (vmap(net)(x), vmap(grad(lambda a: net(a).sum()))(x), jacrev(torch.sin)(x[0])), backend="eager", dynamic=True)
    for size in (5, 7, 8):
        x = torch.randn(size, 3)
        torch.testing.assert_close(compiled(x), (vmap(net)(x), vmap(grad(lambda a: net(a).sum()))(x), jacrev(torch.sin)(x[0])))
    assert framejit.statistics()["graphs"] == 1, framejit.statistics()


def test_an_ensemble() -> None:
    """Modules whose state is stacked run as one."""
    nets = [Net() for _ in range(3)]
    parameters, buffers = stack_module_state(nets)

    def ensemble(parameters, buffers, x):
        return vmap(lambda p, b, y: functional_call(nets[0], (p, b), (y,)), in_dims=(0, 0, None))(parameters, buffers, x)

    x = torch.randn(4, 3)
    found = framejit.compile(ensemble, backend="eager", fullgraph=True)(parameters, buffers, x)
    torch.testing.assert_close(found, torch.stack([net(x) for net in nets]))


def test_state_is_stacked_inside() -> None:
    nets = [Net(), Net()]

    def stacked(x):
        parameters, buffers = stack_module_state(nets)
        return vmap(lambda p, b: functional_call(nets[0], (p, b), (x,)))(parameters, buffers)

    x = torch.randn(4, 3)
    torch.testing.assert_close(framejit.compile(stacked, backend="eager")(x), torch.stack([net(x) for net in nets]))


@pytest.mark.parametrize("wrong", [
    lambda x: vmap(lambda a: a.sum().item())(x),
    lambda x: vmap(lambda a: torch.nn.functional.dropout(a))(x),
    lambda x: vmap(lambda a: torch.zeros(3).add_(a))(x),
    lambda x: vmap(lambda a: a, in_dims=2)(x),
    lambda x: vmap(lambda a: a, in_dims=(0, 0))(x),
    lambda x: vmap(lambda a: a, out_dims=(0, 1))(x),
    lambda x: vmap(lambda a: (a, 3))(x),
    lambda x: vmap(lambda a: a, out_dims=None)(x),
    lambda x: vmap(lambda a: a, randomness="some")(x),
    lambda x: grad(lambda a: a * 2)(x),
    lambda x: grad(lambda a: 3)(x),
    lambda x: grad(lambda a: a.sum(), has_aux=True)(x),
    lambda x: grad(lambda a: a.sum(), argnums=(0, 0))(x),
    lambda x: grad(lambda a: a.sum(), argnums=None)(x),
    lambda x: grad(lambda a: a.sum())(x.long()),
    lambda x: grad(lambda a: {}["a"])(x),
    lambda x: vjp(torch.sin, x)[1]((x, x)),
    lambda x: vjp(lambda a: a.long(), x),
    lambda x: jvp(torch.sin, x, x),
    lambda x: jvp(torch.sin, (x,), (x, x)),
    lambda x: jvp(torch.sin, (x,), (x[0],)),
    lambda x: jvp(lambda a: torch.ones(3), (x,), (x,), strict=True),
    lambda x: jacrev(lambda a: a * 1j)(x),
    lambda x: jacfwd(torch.sin, argnums=1)(x),
    lambda x: vmap(lambda a: a.view(7))(x),
])  # fmt: skip
def test_what_torch_refuses(wrong: Callable[..., Any]) -> None:
    agree(wrong, torch.randn(4, 3), fullgraph=False)
    assert torch._C._functorch.maybe_current_level() is None


@pytest.mark.only_eager("the test names its backend")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("transform", [vmap, lambda f: grad(lambda x: f(x).sum()), jacrev, lambda f: lambda x: jvp(f, (x,), (x,))])
def test_a_compiled_function_inside_a_transform_of_the_program(transform: Callable[..., Any], backend: str) -> None:
    """With AOTAutograd it runs uncompiled there, before and after it has been compiled outside."""
    framejit.reset()
    net = Net()

    def f(x):
        return net(x) * net.scale[:2]

    compiled, x = framejit.compile(f, backend=backend), torch.randn(4, 3)
    expected = transform(f)(x)
    torch.testing.assert_close(transform(compiled)(x), expected)
    torch.testing.assert_close(compiled(x), f(x))
    torch.testing.assert_close(transform(compiled)(x), expected)
    assert framejit.statistics()["graphs"] == (2 if backend == "eager" else 1)


def test_per_sample_gradients_of_a_compiled_module() -> None:
    """Its parameters have the names of the original's, and functional_call replaces them inside the program's own transforms."""
    net, x = Net(), torch.randn(4, 3)
    compiled = framejit.compile(net, backend="aot_eager")
    parameters = {name: p.detach() for name, p in compiled.named_parameters()}
    assert list(parameters) == [name for name, _ in net.named_parameters()]
    compiled(x)
    found, expected = (vmap(grad(loss, argnums=1), in_dims=(None, None, 0))(module, parameters, x) for module in (compiled, net))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(compiled(x), net(x))


def test_an_error_of_the_graph_leaves_no_level_open() -> None:
    """An operator raises only when the graph runs; no functorch level stays open, and gradients stay enabled."""
    def f(x, index):
        return vmap(grad(lambda a: torch.linalg.cholesky(a).sum()))(x)[index]

    compiled = framejit.compile(f, backend="eager")
    good = torch.eye(2).expand(3, 2, 2)
    torch.testing.assert_close(compiled(good, torch.tensor(0)), f(good, torch.tensor(0)))
    with pytest.raises(torch.linalg.LinAlgError):
        compiled(-good, torch.tensor(0))
    assert torch._C._functorch.maybe_current_level() is None and torch.is_grad_enabled()


def test_swapped_parameters_are_not_stored_again() -> None:
    """functional_call puts back what was there: compiled code has nothing to store."""
    net = Net()
    compiled = framejit.compile(lambda x: functional_call(net, {"into.bias": x[0, :1].expand(4)}, (x,)), backend="eager", fullgraph=True)
    x, bias = torch.randn(4, 3), net.into.bias
    compiled(x)
    assert net.into.bias is bias
    net.into.bias = nn.Parameter(torch.ones(4))
    bias = net.into.bias
    torch.testing.assert_close(compiled(x), functional_call(net, {"into.bias": x[0, :1].expand(4)}, (x,)))
    assert net.into.bias is bias


def test_inductor() -> None:
    def cubes(m, x):
        return vmap(grad(lambda a: (a**3).sum()))(x)

    expected = told(cubes, lambda f: f)
    found = told(cubes, lambda f: framejit.compile(f, backend="inductor"))
    close(found[0], expected[0], 1e-4)


@pytest.mark.parametrize("transform", ["grad", "vjp"])
def test_a_constant_is_transformed(transform: str) -> None:
    """Fakes of small constants know their values. A function under a transform was given a value that nobody had set."""

    def program(y: torch.Tensor) -> Any:
        x = torch.tensor(2.0)
        if transform == "grad":
            return torch.func.grad(lambda x: x * x.item())(x) + y
        return torch.func.vjp(lambda x: x * x.item(), x)[1](torch.ones(()))[0] + y

    y = torch.ones(3)
    torch.testing.assert_close(framejit.compile(program, backend="eager")(y), program(y))
