"""Compiled functions that the program calls inside its own transforms of torch.func: with the backend `eager` their graphs are transformed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, hessian, jacrev, jvp, stack_module_state, vmap
from torch.utils import _pytree as pytree

import framejit

torch.manual_seed(0)
ROWS = torch.randn(5, 3)
WEIGHT = torch.randn(3, requires_grad=True)
NET = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
CALLS: list[Any] = []
Function = Callable[[Any], Any]


def network(a: Any) -> Any:
    return NET(a).sin()


def with_a_weight_from_outside(a: Any) -> Any:
    return {"of both": a * WEIGHT, "no gradient": a.detach() + 1}


def random(a: Any) -> Any:
    return nn.functional.dropout(a, 0.5) + torch.rand(3)


def side_effects(a: Any) -> Any:
    CALLS.append(a.shape)
    b = a.clone()
    b[0] = 1.0
    b[1:].mul_(3)
    return b


def transforms(a: Any) -> Any:
    return grad(lambda b: (b.sin() * WEIGHT).sum())(a) + vmap(lambda b: b * 2 + 1)(a)


def looks_at_gradients(a: Any) -> Any:
    return a * 2 if a.requires_grad and WEIGHT.requires_grad else a * 3


class Squared(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(a: Any) -> Any:
        return a * a

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return 2 * gradient * ctx.saved_tensors[0]


def asks_what_was_computed(a: Any) -> Any:
    return a * 2 if (a * WEIGHT).requires_grad else a * 3


def looks_at_data(a: Any) -> Any:
    return a * 2 if a.sum() > 0 else a * 3


def calls_a_function_of_autograd(a: Any) -> Any:
    return Squared.apply(a.sin()).cos()


def makes_a_leaf(a: Any) -> Any:
    return (a * 2).requires_grad_() * 1


def chooses(a: Any) -> Any:
    return torch.cond(a.sum() > 0, lambda a: a * 2, lambda a: a * 3, (a,))


IN_ONE_GRAPH: list[Function] = [network, with_a_weight_from_outside, random, side_effects, transforms, looks_at_gradients]
IN_PARTS: list[Function] = [asks_what_was_computed, looks_at_data, calls_a_function_of_autograd, makes_a_leaf]


def summed(function: Function) -> Function:
    return lambda a: sum(leaf.sum() for leaf in pytree.tree_leaves(function(a)))


TRANSFORMS: dict[str, Function] = {
    "vmap": lambda f: vmap(f, in_dims=1, randomness="different")(ROWS.t()),
    "grad": lambda f: grad(summed(f))(ROWS[0]),
    "vmap of grad": lambda f: vmap(grad(summed(f)), randomness="same")(ROWS),
    "jacrev": lambda f: jacrev(f)(ROWS[0]),
    "jvp": lambda f: jvp(f, (ROWS[0],), (ROWS[1],)),
    "hessian": lambda f: hessian(summed(f))(ROWS[0]),
}


def outcome(transform: Function, function: Function) -> Any:
    """Return what two calls give, with a random number drawn after each, and the list of exceptions and other events."""
    CALLS.clear()
    found: list[Any] = []
    for seed in range(2):
        torch.manual_seed(seed)
        try:
            found.append(pytree.tree_map(lambda t: t.detach() if isinstance(t, torch.Tensor) else t, transform(function)))
        except Exception as error:
            CALLS.append(f"{type(error).__name__}: {str(error)[:60]}")
        found.append(torch.rand(1))
        assert torch._C._functorch.maybe_current_level() is None
    return found, [*CALLS]


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("function", [*IN_ONE_GRAPH, *IN_PARTS], ids=lambda function: function.__name__)
@pytest.mark.only_eager("with AOTAutograd, compiled functions run uncompiled inside the program's transforms")
def test_graphs_are_transformed(function: Function) -> None:
    for name, transform in TRANSFORMS.items():
        framejit.reset()
        compiled = framejit.compile(function, backend="eager", fullgraph=function in IN_ONE_GRAPH)
        found, expected = outcome(transform, compiled), outcome(transform, function)
        torch.testing.assert_close(found[0], expected[0], msg=lambda text: f"{name}: {text}")
        assert found[1] == expected[1]
        if function in IN_ONE_GRAPH:
            assert framejit.statistics()["graphs"] == 1, name


@pytest.mark.only_eager("with AOTAutograd, compiled functions run uncompiled inside the program's transforms")
def test_inside_and_outside_are_told_apart() -> None:
    """Entries for the function by itself, under one transform and under several, serve nothing else."""
    framejit.reset()

    def function(a: Any) -> Any:
        return a.sin() * 2

    compiled = framejit.compile(function, backend="eager", fullgraph=True)
    x = torch.randn(3, 4, requires_grad=True)
    for _ in range(2):
        for mapped in (lambda f: f(x), lambda f: vmap(f)(x), lambda f: vmap(vmap(f))(x), lambda f: grad(lambda a: f(a).sum())(x)):
            torch.testing.assert_close(mapped(compiled), mapped(function))
    torch.testing.assert_close(torch.autograd.grad(vmap(compiled)(x).sum(), x), torch.autograd.grad(function(x).sum(), x))
    assert framejit.statistics()["graphs"] == 4


@pytest.mark.only_eager("with AOTAutograd, compiled functions run uncompiled inside the program's transforms")
def test_compiled_models_are_called_with_other_parameters() -> None:
    """Gradients per sample, and an ensemble."""
    framejit.reset()
    compiled, parameters = framejit.compile(NET, backend="eager", fullgraph=True), dict(NET.named_parameters())
    stacked, _ = stack_module_state([copy.deepcopy(NET) for _ in range(3)])

    def answers(model: Any) -> Any:
        def loss(values: Any, sample: Any) -> Any:
            return functional_call(model, values, (sample,)).pow(2).sum()

        return vmap(grad(loss), (None, 0))(parameters, ROWS), vmap(lambda values: functional_call(model, values, (ROWS,)))(stacked)

    torch.testing.assert_close(answers(compiled), answers(NET))
    assert framejit.statistics()["graphs"] == 2


@pytest.mark.only_eager("with AOTAutograd, compiled functions run uncompiled inside the program's transforms")
def test_operators_that_take_functions_run_natively() -> None:
    framejit.reset()
    torch.testing.assert_close(vmap(framejit.compile(chooses, backend="eager"))(ROWS), vmap(chooses)(ROWS))
    with pytest.raises(framejit.Unsupported, match="torch.cond inside of it"):
        vmap(framejit.compile(chooses, backend="eager", fullgraph=True))(ROWS)


def test_other_backends_run_as_written() -> None:
    compiled = framejit.compile(network, backend="aot_eager")
    torch.testing.assert_close(vmap(compiled)(ROWS), network(ROWS))
    with pytest.raises(framejit.Unsupported, match="FJ038"):
        vmap(framejit.compile(network, backend="aot_eager", fullgraph=True))(ROWS)
