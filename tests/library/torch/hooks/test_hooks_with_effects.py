"""Hooks with side effects that a backward pass in compiled code comes by: against eager, in one graph."""

from __future__ import annotations

import pytest
import torch
from hooked import BACKENDS, State, does_as_eager
from named import Programs

import framejit

PROGRAMS = Programs()
"""By name: takes a State. Each is one graph with both backends."""
SPLIT = Programs()
"""Programs that the graph can't hold, or not with each backend."""
program, split = PROGRAMS.add, SPLIT.add


@program
def told_in_order(s):
    x, handles = s.x, []
    for index, layer in enumerate(s.model):
        x = layer(x)
        x.register_hook(lambda grad, index=index: s.seen.append((index, grad.sum().item())))
    for name, p in s.model[0].named_parameters():
        handles.append(p.register_hook(lambda grad, name=name: s.seen.append((name, grad.sum()))))
        handles.append(p.register_post_accumulate_grad_hook(lambda p, name=name: s.seen.append((name, p.grad.sum()))))
    x.pow(2).sum().backward()
    for handle in handles:
        handle.remove()


@program
def changes_and_tells(s):
    a = s.w * 2
    b = a.sin()
    c = b * s.v
    kept = {}

    def of_a(grad):
        s.seen.append(("a", grad))
        return grad * kept["c"] + 1

    def of_c(grad):
        kept["c"] = grad * 3
        return kept["c"]

    a.register_hook(of_a)
    b.register_hook(lambda grad: s.seen.append(("b", grad)))
    c.register_hook(of_c)
    (c * c).sum().backward()


@program
def gradients_so_far(s):
    h = s.model[0](s.x)
    h.register_hook(lambda grad: s.seen.append([None if p.grad is None else p.grad.sum() for p in s.model.parameters()]))
    s.model[2](s.model[1](h)).sum().backward()


@program
def takes_itself_off(s):
    y = s.w * 2
    handle = y.register_hook(lambda grad: (s.seen.append(grad), handle.remove(), None)[2])
    z = (y * y).sum()
    z.backward(retain_graph=True)
    z.backward()


@program
def raises_between(s):
    y = s.w * 2

    def hook(grad):
        s.seen.append(1)
        raise KeyError("on purpose")

    y.register_hook(hook)
    try:
        (y * y).sum().backward()
    except KeyError as error:
        s.seen.append(str(error))


@program
def averages(s):
    s.mean = getattr(s, "mean", torch.zeros(3, 3))
    y = s.w * 2
    y.register_hook(lambda grad: s.mean.mul_(0.9).add_(grad, alpha=0.1) is None or None)
    (y * y).sum().backward()
    s.seen.append(s.mean.clone())


@program
def retained(s):
    y = s.w * 2
    y.retain_grad()
    y.register_hook(lambda grad: grad * 3)
    y.mul_(3)
    z = y.sin().sum()
    z.backward(retain_graph=True)
    first = y.grad
    z.backward()
    s.seen += [first, y.grad, y.retains_grad]


@program
def retained_for_some(s):
    y, u = s.w * 2, s.v * 3
    y.retain_grad()
    u.retain_grad()
    (y * u).sum().backward(inputs=[s.w])
    s.seen += [y.grad, u.retains_grad]


@program
def retained_and_kept(s):
    s.y = s.w * 2
    s.y.retain_grad()
    (s.y * s.y).sum().backward()
    s.seen += [s.y.retains_grad, s.y.grad]


@split
def retained_for_later(s):
    s.y = s.w * 2
    s.y.retain_grad()
    return (s.y * s.v).sum()


@split
def what_was_retained(s):
    loss = retained_for_later(s)
    framejit.graph_break()
    loss.backward()
    s.seen.append(s.y.grad)


@program
def on_inputs(s):
    twice = s.w.register_hook(lambda grad: grad * 2)
    more = s.w.register_hook(lambda grad: grad + 1)
    gone = s.v.register_hook(lambda grad: grad * 100)
    gone.remove()
    s.handles = [more, twice, gone]
    return (s.w * s.v).sum()


@program
def in_a_scope(s):
    with s.w.register_hook(lambda grad: grad * 2):
        (s.w * s.v).sum().backward()
    return (s.w * s.v).sum()


@split
def on_an_input_that_changes(s):
    y = s.w * 2
    framejit.graph_break()
    z = y + 1
    y.register_hook(lambda grad: grad * 3)
    y.mul_(5)
    return (y * z).sum()


@split
def random_numbers(s):
    y = s.w * 2
    y.register_hook(lambda grad: (s.seen.append(grad.sum()), grad * torch.rand_like(grad))[1])
    (y * y).sum().backward()


@split
def in_place(s):
    y = s.w * 2
    y.register_hook(lambda grad: (s.seen.append(grad.sum()), grad.mul_(2), None)[2])
    (y * y).sum().backward()


@split
def changes_what_autograd_has_saved(s):
    a = s.v.detach() * 1
    z = (s.w * a).sin()
    z.register_hook(lambda grad: (a.add_(1), None)[1])
    z.sum().backward()


@split
def changes_what_another_hook_reads(s):
    s.buffer = torch.zeros(3, 3)
    y = s.w * 2
    y.register_hook(lambda grad: (s.buffer.add_(grad), None)[1])
    w = y.sin()
    w.register_hook(lambda grad: grad + s.buffer)
    w.sum().backward()


@split
def gives_no_gradient(s):
    y = s.w * 2
    y.register_hook(lambda grad: (s.seen.append(1), grad.sum())[1])
    (y * y).sum().backward()


@split
def asks_for_gradients(s):
    y = s.w * 2
    y.register_hook(s.seen.append)
    return torch.autograd.grad((y * y).sum(), s.w)[0]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [*PROGRAMS, *SPLIT])
def test_side_effects_of_hooks_are_eagers(name: str, backend: str) -> None:
    found = does_as_eager(PROGRAMS.get(name) or SPLIT[name], backend)
    if name in PROGRAMS:
        assert found["graph_breaks"] == 0 and found["graphs"] <= 2, found


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hook_that_returns_something_raises(backend: str) -> None:
    """Of those that come after a gradient has been added."""

    def fn(s):
        with s.w.register_post_accumulate_grad_hook(lambda p: p.grad):
            (s.w * s.v).sum().backward()

    for call in (fn, framejit.compile(fn, backend=backend)):
        with pytest.raises(RuntimeError, match="should return None"):
            call(State())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_hooks_hear_of_what_is_only_added_to_a_tensor_from_outside(backend):
    heard = []

    def fn(out, x, w):
        y = x * w
        y.register_hook(lambda grad: heard.append(grad.sum().item()))
        out.add_(y)

    compiled = framejit.compile(fn, backend=backend)
    for _ in range(2):
        out, w = torch.zeros(3), torch.ones(3, requires_grad=True)
        compiled(out, torch.ones(3), w)
        out.sum().backward()
    assert heard == [3.0, 3.0]
