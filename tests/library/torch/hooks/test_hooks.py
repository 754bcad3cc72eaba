"""Hooks on gradients in compiled code: those of tensors that the graph computes, against eager, in one graph where they only compute."""

from __future__ import annotations

import functools

import pytest
import torch
from agreement import Comparison
from hooked import BACKENDS, State, does_as_eager, story
from named import Programs

import framejit

PROGRAMS = Programs()
"""By name: takes a State, and gives a loss or nothing. Each is one graph with both backends."""
SPLIT = Programs()
"""Programs that the graph can't hold."""
program, split = PROGRAMS.add, SPLIT.add


@program
def scales(s):
    y = s.w * 2
    y.register_hook(lambda grad: grad * 10)
    return (y * y).sum()


@program
def clips(s):
    h = s.model[1](s.model[0](s.x))
    h.register_hook(lambda grad: grad.clamp(-0.01, 0.01))
    return s.model[2](h).pow(2).sum()


@program
def in_order(s):
    y = s.w * 2
    y.register_hook(lambda grad: grad + 1)
    y.register_hook(lambda grad: grad * 3)
    y.register_hook(lambda grad: None)
    return (y * y).sum()


@program
def of_several_kinds(s):
    y = s.w.exp()
    mask = (s.v > 0).float()
    y.register_hook(functools.partial(torch.mul, 3))
    y.register_hook(lambda grad: grad * mask + y)
    y.register_hook(hook=lambda grad: grad * torch.rand_like(grad))
    return y.sum()


@split
def reads_an_attribute(s):
    y = s.w.exp()
    y.register_hook(s.scaled)
    return y.sum()


@program
def reads_an_attribute_in_the_call(s):
    y = s.w.exp()
    y.register_hook(s.scaled)
    y.sum().backward()


@program
def behind_uses_and_changes(s):
    y = s.w * 2
    z = y + 1
    y.register_hook(lambda grad: grad * 10)
    y.mul_(3)
    y.register_hook(lambda grad: grad * 7)
    return z.sum() + y.sum()


@program
def of_views_and_parts(s):
    y = s.w * 2
    part = y[0]
    part.register_hook(lambda grad: grad * 3)
    a, b, c = y.unbind()
    b.register_hook(lambda grad: grad * 5)
    return y.sum() + (a * b * c).sum() + part.sum()


@split
def of_a_result(s):
    loss = (s.w * 2).sum()
    loss.register_hook(lambda grad: grad * 3)
    return loss


@program
def taken_off(s):
    y = s.w * 2
    handle = y.register_hook(lambda grad: grad * 10)
    with y.register_hook(lambda grad: grad * 3):
        z = y * y
    handle.remove()
    return z.sum()


@program
def taken_off_between_backwards(s):
    y = s.w * 2
    handle = y.register_hook(lambda grad: grad * 3)
    z = (y * y).sum()
    z.backward(retain_graph=True)
    handle.remove()
    z.backward()


@program
def in_a_whole_step(s):
    s.optimizer.zero_grad()
    h = s.model[1](s.model[0](s.x))
    h.register_hook(lambda grad: grad / (grad.norm() + 1e-6))
    loss = s.model[2](h).pow(2).sum()
    loss.backward()
    s.optimizer.step()
    return loss.detach()


@program
def of_what_needs_no_gradient(s):
    try:
        s.x.register_hook(lambda grad: grad)
    except RuntimeError as error:
        s.seen.append(str(error))
    return s.w.sum()


@program
def differentiated_inside(s):
    y = s.w**3
    y.register_hook(lambda grad: grad * 2)
    (grad,) = torch.autograd.grad((y * y).sum(), s.w, create_graph=True)
    (grad * grad).sum().backward()


@split
def is_yes(s):
    y = s.w.exp()
    z = y.sin()
    y.register_hook(lambda grad: s.seen.append(grad.sum().item()))
    return z.sum() + y.sum()


@split
def keeps_gradients(s):
    y = s.w.exp()
    y.register_hook(s.seen.append)
    (y * y).sum().backward()
    return s.seen[-1].sum()


@split
def changes_in_place(s):
    y = s.w * 2
    z = y.sin()
    y.register_hook(lambda grad: grad.mul_(2) and None)
    return z.sum()


@split
def gives_another_shape(s):
    y = s.w * 2
    y.register_hook(lambda grad: grad.sum())
    return y.sum()


@split
def raises(s):
    y = s.w * 2

    def hook(grad):
        raise KeyError("on purpose")

    y.register_hook(hook)
    return y.sum()


@split
def a_handle_that_is_kept(s):
    y = s.w * 2
    s.handle = y.register_hook(lambda grad: grad * 3)
    return y.sum()


@split
def a_handle_behind_a_break(s):
    y = s.w * 2
    handle = y.register_hook(lambda grad: grad * 3)
    framejit.graph_break()
    handle.remove()
    return y.sum()


@split
def a_variable_that_changes(s):
    factor = 2.0
    y = s.w * 2
    y.register_hook(lambda grad: grad * factor)
    factor = 5.0
    return y.sum()


@split
def a_variable_that_changes_behind_a_break(s):
    factor = 2.0
    y = s.w * 2
    y.register_hook(lambda grad: grad * factor)
    framejit.graph_break()
    factor = 5.0
    return y.sum()


@split
def the_variable_of_a_loop(s):
    total = 0
    for i in range(3):
        y = s.w * (i + 1)
        y.register_hook(lambda grad: grad * i)
        total = total + y.sum()
    return total


@split
def an_attribute_that_changes(s):
    s.scale = 2.0
    y = s.w * 2
    y.register_hook(s.scaled)
    s.scale = 5.0
    return y.sum()


@split
def a_list_that_changes(s):
    factors = [2.0]
    y = s.w * 2
    y.register_hook(lambda grad: grad * factors[0])
    factors[0] = 7.0
    y.sum().backward()


@split
def that_asks_for_gradients_in_turn(s):
    """A layer of an equilibrium model: its hook solves for the gradient. One operator can't run its backward inside of its backward."""
    z = torch.tanh(s.x @ s.w)
    start = z.clone().detach().requires_grad_()
    step = torch.tanh(start @ s.v * 0.1)

    def solve(gradient):
        result = gradient
        for _ in range(3):
            result = torch.autograd.grad(step, start, result, retain_graph=True)[0] + gradient
        return result

    z.register_hook(solve)
    return z.pow(2).sum()


@program
def of_a_leaf(s):
    handle = s.w.register_hook(lambda grad: grad * 10)
    (s.w * s.v).sum().backward()
    handle.remove()
    (s.w * s.v).sum().backward()


class Listened(State):
    """A state with hooks on its leaves, which tell what they see, change gradients, keep them, and step optimizers."""

    def __init__(self) -> None:
        super().__init__()
        for name, p in self.model.named_parameters():
            p.register_hook(lambda grad, name=name: self.seen.append((name, grad.shape)))
            p.register_post_accumulate_grad_hook(lambda p, name=name: self.seen.append((name, p.grad.shape)))
        self.w.register_hook(self.scaled)
        self.w.register_hook(self.keep)
        self.optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in self.model[0].parameters()}
        for p in self.optimizers:
            p.register_post_accumulate_grad_hook(self.step)

    def keep(self, grad):
        self.kept = grad

    def step(self, p):
        self.optimizers[p].step()
        self.optimizers[p].zero_grad()


def whole_step(s):
    loss = s.model(s.x).pow(2).sum() + (s.w * s.v).sum()
    loss.backward()
    return loss.detach()


def gradient_that_is_kept(s):
    (s.w * s.v).sum().backward()
    s.seen.append(s.kept is s.w.grad)
    s.w.grad.add_(1)
    return s.kept.sum()


def one_gradient_for_two(s):
    (s.w + s.v).backward(s.x[:3])


def gradients_of_some(s):
    (s.w * s.v).sum().backward(inputs=[s.v])


def two_backwards(s):
    (s.w * s.v).sum().backward()
    s.seen.append("between")
    s.scale += 1
    (s.w * s.v).sin().sum().backward()


LISTENED = {fn.__name__: fn for fn in (whole_step, gradient_that_is_kept, one_gradient_for_two, gradients_of_some, two_backwards)}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [*PROGRAMS, *SPLIT])
def test_hooks_run_as_in_eager(name: str, backend: str) -> None:
    found = does_as_eager(PROGRAMS.get(name) or SPLIT[name], backend)
    if name in PROGRAMS:
        assert found["graph_breaks"] == 0 and found["graphs"] <= 2, found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", LISTENED)
def test_hooks_of_leaves(name: str, backend: str) -> None:
    """They were there before the call, whose `backward()` is in the graph: they are traced, in the order in which autograd calls them."""
    framejit.reset()
    Comparison().same(story(framejit.compile(LISTENED[name], backend=backend), Listened), story(LISTENED[name], Listened))
    found = framejit.statistics()
    assert found["graph_breaks"] == 0 and found["graphs"] <= 2 + (name == "two_backwards"), found


@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_of_leaves_that_come_and_go(backend: str) -> None:
    def fn(s):
        (s.w * s.v).sum().backward()

    told = []
    for call in (fn, framejit.compile(fn, backend=backend)):
        state, seen = State(), []
        for factor in (None, 3.0, 5.0, None):
            handle = None if factor is None else state.w.register_hook(lambda grad, factor=factor: grad * factor)
            call(state)
            if handle is not None:
                handle.remove()
            seen.append(state.portrait())
        told.append(seen)
    Comparison().same(told[1], told[0])
