"""Backward hooks of modules in compiled code with its own backward pass: against eager, in one graph."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import Comparison
from hooked import BACKENDS, State, does_as_eager, story
from named import Programs
from torch import nn
from torch.nn.modules import module as torch_module

import framejit


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        h = self.a(x).relu()
        return x + self.b(h) + h


class Several(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)

    def forward(self, x, y, flag=True):
        return self.a(x) * y, x - y, 3


class Hooked(State):
    """A state with hooks on modules, which the subclasses put on."""

    def __init__(self) -> None:
        super().__init__()
        self.residual, self.several = Residual(), Several()
        for layer in (*self.residual.modules(), *self.several.modules(), *self.model):
            self.put_on(layer)

    def put_on(self, module: nn.Module) -> None:
        raise NotImplementedError


class Told(Hooked):
    def put_on(self, module: nn.Module) -> None:
        name = type(module).__name__
        module.register_full_backward_hook(lambda module, inputs, outputs: self.seen.append((name, inputs, outputs)))
        module.register_full_backward_pre_hook(lambda module, outputs: self.seen.append(("before", name, outputs)))


class Changing(Hooked):
    def put_on(self, module: nn.Module) -> None:
        def hook(module, inputs, outputs):
            self.seen.append(len(outputs))
            return tuple([None if grad is None else grad * self.scale + self.v.detach()[0, 0] for grad in inputs])

        module.register_full_backward_hook(hook)
        module.register_full_backward_pre_hook(lambda module, outputs: tuple([None if grad is None else grad.clamp(-0.5, 0.5) for grad in outputs]))


class Adding(Hooked):
    """Hooks that add the gradient that the hook before has seen."""

    def put_on(self, module: nn.Module) -> None:
        def hook(module, inputs, outputs):
            before, self.before = getattr(self, "before", None), inputs[0]
            return None if before is None or before.shape != inputs[0].shape else (inputs[0] + before,)

        module.register_full_backward_hook(hook)


class Looking(Hooked):
    def put_on(self, module: nn.Module) -> None:
        params = list(module.parameters(recurse=False))
        module.register_full_backward_hook(lambda *args: self.seen.append([None if p.grad is None else p.grad.sum() for p in params]))


class Raising(Hooked):
    def put_on(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            module.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0], inputs[0]))


def block(s):
    s.residual(s.w).pow(2).sum().backward()


def of_what_needs_no_gradient(s):
    s.model(s.x).pow(2).sum().backward()


def twice(s):
    loss = (s.residual(s.w) * s.residual(s.v)).sum()
    loss.backward(retain_graph=True)
    loss.backward()


def several(s):
    a, b, _ = s.several(s.w, s.v)
    (a * b).sum().backward()


CASES = [(Told, block), (Told, of_what_needs_no_gradient), (Told, twice), (Told, several), (Changing, block), (Looking, block), (Raising, block)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("kind", "fn"), CASES)
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_hooks(kind: type[Hooked], fn: Callable[..., Any], backend: str) -> None:
    found = does_as_eager(fn, backend, kind)
    assert fn is of_what_needs_no_gradient or (found["graph_breaks"] == 0 and found["graphs"] <= 2), found  # that warns, and tests see warnings


@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_that_change_gradients_one_by_the_other(backend: str) -> None:
    Comparison().same(story(framejit.compile(block, backend=backend), Adding), story(block, Adding))


def test_hooks_of_all_modules() -> None:
    def fn(s):
        s.model(s.w).pow(2).sum().backward()

    told = []
    for call in (framejit.compile(fn, backend="aot_eager"), fn):
        seen: list[Any] = []
        handle = torch_module.register_module_full_backward_hook(lambda module, inputs, outputs, seen=seen: seen.append((type(module).__name__, outputs)))
        framejit.reset()
        call(State())
        handle.remove()
        told.append(seen)
    Comparison().same(*told)


@pytest.mark.parametrize("backend", BACKENDS)
def test_grad_cam(backend: str) -> None:
    """Hooks that the function puts on, and takes off again."""

    def fn(s):
        kept = {}
        handles = [
            s.model[1].register_forward_hook(lambda module, args, result: kept.update(activation=result)),
            s.model[1].register_full_backward_hook(lambda module, inputs, outputs: kept.update(gradient=outputs[0])),
        ]
        s.model(s.x)[:, 0].sum().backward()
        for handle in handles:
            handle.remove()
        return (kept["gradient"].mean(0) * kept["activation"].detach()).sum(1).relu()

    found = does_as_eager(fn, backend)
    assert found["graph_breaks"] == 0 and found["graphs"] <= 2, found


class Looked(nn.Module):
    """Its graph is split in the middle of the module."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)

    def forward(self, x):
        h = self.a(x)
        return h * 2 if h.sum() > -1e9 else h


BEHIND = Programs()
"""By name: programs whose backward pass comes after the graph."""
behind = BEHIND.add


@behind
def residual(s):
    return s.residual(s.w).pow(2).sum()


@behind
def called_twice(s):
    return s.residual.a(s.residual.a(s.w).relu()).pow(2).sum()


@behind
def several_results(s):
    y, z, n = s.several(s.w * 2, s.v.exp(), flag=False)
    return (y * z * n).pow(2).sum()


@behind
def no_argument_requires_a_gradient(s):
    return s.model(s.x).pow(2).sum()


@behind
def without_gradients_first(s):
    with torch.no_grad():
        s.model(s.x)
    return s.model(s.x).pow(2).sum()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [Told, Changing])
@pytest.mark.parametrize("name", BEHIND)
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_a_backward_pass_behind_the_graph(name: str, kind: type[Hooked], backend: str) -> None:
    fn = BEHIND[name]
    found = does_as_eager(fn, backend, kind)
    assert found["graph_breaks"] == 0 and found["graphs"] <= 2, found


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_graph_that_is_split_inside_a_module_with_hooks(backend: str) -> None:
    class Split(Told):
        def __init__(self) -> None:
            super().__init__()
            self.looked = Looked()
            for layer in self.looked.modules():
                self.put_on(layer)

    def fn(s):
        return s.looked(s.w * 2).pow(2).sum()

    Comparison().same(story(framejit.compile(fn, backend=backend), Split), story(fn, Split))


@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_that_are_put_on_and_taken_off_around_a_module(backend: str) -> None:
    def fn(s):
        handle = s.model[1].register_full_backward_hook(lambda module, inputs, outputs: s.seen.append(outputs))
        y = s.model(s.x)
        handle.remove()
        return y.sum()

    Comparison().same(story(framejit.compile(fn, backend=backend)), story(fn))


@pytest.mark.parametrize("backend", BACKENDS)
def test_code_that_modules_share_calls_each_ones_hooks(backend: str) -> None:
    """The modules are told apart by the call, live no longer for it, and what a hook keeps or raises is its own."""
    seen: list[Any] = []

    def hook(module, inputs, outputs):
        if outputs[0].sum() > 100:
            raise KeyError(module.name)
        seen.append((module.name, inputs[0], outputs[0]))

    def run(wrap):
        seen.clear()
        torch.manual_seed(0)
        modules = [nn.Sequential(nn.Linear(3, 3), nn.Tanh()) for _ in range(2)]
        call = wrap(lambda module, x: module(x))
        told = []
        for name, module in enumerate(modules):
            module.name = name
            module.register_full_backward_hook(hook)
            x = torch.ones(2, 3, requires_grad=True)
            y = call(module, x)
            y.sum().backward(retain_graph=True)
            with pytest.raises(KeyError, match=str(name)):
                (y * 100).sum().backward()
            told.append(x.grad)
        alive = [weakref.ref(module) for module in modules]
        told += [grad.clone() for _, *grads in seen for grad in grads]
        del modules, module, y
        gc.collect()
        return [name for name, *_ in seen], told, [ref() is None for ref in alive]

    framejit.reset()
    Comparison().same(run(lambda fn: framejit.compile(fn, backend=backend)), run(lambda fn: fn))
    assert framejit.statistics()["graph_breaks"] == 0


@pytest.mark.only_eager("a warning that AOTAutograd's graph gives names the line of the graph that gives it")
def test_the_warning_is_given_for_the_line_that_calls_backward() -> None:
    def fn(s):
        s.model(s.x).sum().backward()

    lines = []
    for call in (fn, framejit.compile(fn, backend="eager")):
        s = State()
        s.model[0].register_full_backward_hook(lambda *args: None)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            call(s)
        lines.append([(warning.filename, warning.lineno, str(warning.message)) for warning in seen])
    assert lines[0] == lines[1] and len(lines[0]) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_full_backward_hooks_hear_of_a_result_that_is_also_kept_detached(backend):
    class Remembering(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)
            self.seen, self.heard = [], []
            self.inner.register_full_backward_hook(lambda module, inputs, outputs: self.heard.append(outputs[0].clone()))

        def forward(self, x):
            x = self.inner(x)
            self.seen.append(x.detach())
            return x

    found = []
    for compiles in (False, True):
        torch.manual_seed(0)
        model = Remembering()
        call = framejit.compile(model, backend=backend) if compiles else model
        for _ in range(2):
            call(torch.ones(2, 4)).pow(2).sum().backward()
        found.append((model.seen, model.heard, model.inner.weight.grad))
    assert len(found[1][1]) == 2
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("backend", BACKENDS)
def test_full_backward_hooks_hear_of_a_result_that_is_only_added_to_a_tensor_from_outside(backend):
    found = []
    for compiles in (False, True):
        torch.manual_seed(0)
        layer, heard = nn.Linear(4, 4), []
        layer.register_full_backward_hook(lambda module, inputs, outputs, heard=heard: heard.append(outputs[0].clone()))

        def fn(out, x, layer=layer):
            out.add_(layer(x))

        call = framejit.compile(fn, backend=backend) if compiles else fn
        for _ in range(2):
            out = torch.zeros(2, 4)
            call(out, torch.ones(2, 4))
            out.pow(2).sum().backward()
        found.append((heard, layer.weight.grad))
    assert len(found[1][0]) == 2
    torch.testing.assert_close(*found)
