"""Gradients that the program asks for inside compiled code: `backward()` and `torch.autograd.grad`, against eager, bit for bit."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import Comparison
from named import Programs
from torch import nn

import framejit
from framejit.backends import eager as backend_eager

BACKENDS = ("eager", "aot_eager")
PROGRAMS = Programs()
"""By name: takes a State, and gives what it computes. Each is one graph with both backends."""
program = PROGRAMS.add
ELSEWHERE: dict[str, Callable[..., Any]] = {}
"""The same, of programs that the graph can't hold, or not with each backend."""


def elsewhere(fn: Callable[..., Any]) -> Callable[..., Any]:
    ELSEWHERE[fn.__name__] = fn
    return fn


class State:
    """The objects that the programs work on: leaves of several layouts, a model, an LSTM and an optimizer."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        self.lstm = nn.LSTM(3, 2)
        self.w, self.v = (torch.randn(3, 3, requires_grad=True) for _ in range(2))
        self.turned = torch.randn(3, 3).t().requires_grad_()
        self.gaps = torch.randn(3, 6)[:, ::2].requires_grad_()
        self.x = torch.randn(5, 3)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.seen: list[Any] = []

    def leaves(self) -> list[torch.Tensor]:
        return [self.w, self.v, self.turned, self.gaps, *self.model.parameters(), *self.lstm.parameters()]

    def portrait(self) -> list[Any]:
        """All that can be seen of the leaves and their gradients."""
        grads = [leaf.grad for leaf in self.leaves()]
        memory = [None if grad is None else grad.data_ptr() for grad in grads]
        aliases = [[i for i, other in enumerate(memory) if other is not None and other == mine] for mine in memory]
        return [[picture(leaf) for leaf in self.leaves()], [picture(grad) for grad in grads], aliases, self.seen]


def picture(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        has_history = value.grad_fn is not None
        return value.detach().clone(), value.shape, value.stride(), value.dtype, value.requires_grad, value.is_leaf, has_history
    if isinstance(value, (tuple, list)):
        return [picture(item) for item in value]
    return value


def outcome(call: Callable[..., Any], *args: Any) -> Any:
    try:
        return picture(call(*args))
    except RuntimeError as error:
        return str(error)[:40]


@program
def gradient_of_a_leaf(s):
    return torch.autograd.grad((s.w * s.w).sum(), s.w)


@program
def gradients_of_several(s):
    return torch.autograd.grad([(s.w @ s.v).sum(), s.w.sin().sum()], [s.w, s.v])


@program
def gradient_outputs(s):
    y = s.w * 3
    return torch.autograd.grad(y * y, [s.w], grad_outputs=[torch.ones(3, 3) * 2])


@program
def unused(s):
    return torch.autograd.grad((s.w * 2).sum(), [s.w, s.v], allow_unused=True)


@program
def unused_made_zero(s):
    return torch.autograd.grad((s.w * 2).sum(), [s.w, s.v], allow_unused=True, materialize_grads=True)


@program
def of_a_value_between(s):
    y = s.w.exp()
    z = (y * y).sum()
    return torch.autograd.grad(z, y)


@program
def gradient_of_a_gradient(s):
    (first,) = torch.autograd.grad((s.w**3).sum(), s.w, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), s.w)
    return first.detach(), second


@program
def kept_for_a_second_time(s):
    loss = (s.w * s.w).sum()
    (a,) = torch.autograd.grad(loss, s.w, retain_graph=True)
    (b,) = torch.autograd.grad(loss, s.w)
    return a + b


@program
def inputs_from_an_iterator(s):
    loss = s.model(s.x).sum()
    return torch.autograd.grad(loss, s.model.parameters())


@program
def backward(s):
    loss = s.model(s.x).pow(2).mean()
    loss.backward()
    return loss


@program
def backward_twice_adds(s):
    s.model(s.x).pow(2).mean().backward()
    s.model(s.x + 1).pow(2).mean().backward()


@program
def backward_of_some(s):
    (s.w @ s.v).sum().backward(inputs=[s.v])


@program
def backward_with_a_gradient(s):
    (s.w * s.v).backward(torch.full((3, 3), 0.5))


@program
def backward_of_several(s):
    torch.autograd.backward([(s.w * 2).sum(), (s.v * s.w).sum()])


@program
def backward_in_no_grad(s):
    loss = (s.w * s.v).sum()
    with torch.no_grad():
        loss.backward()
    return loss


@program
def layouts(s):
    ((s.turned @ s.gaps) * s.w).sum().backward()


@program
def spread_out_gradients(s):
    (s.w.sum() + s.turned.sum() + s.gaps.sum()).backward()


@program
def one_gradient_for_two(s):
    (s.w + s.v).backward(s.x[:3])


@program
def one_gradient_computed_for_two(s):
    (s.w + s.v).exp().sum().backward()


@program
def parts_of_one_gradient(s):
    torch.cat([s.w, s.v]).exp().sum().backward()


@elsewhere
def gradients_of_biases(s):
    s.lstm(s.x)[0].sum().backward()
    return [p.grad for p in s.lstm.parameters()]


@program
def a_leaf_itself(s):
    s.w.backward(s.x[:3])


@program
def clears_before(s):
    s.optimizer.zero_grad()
    s.model(s.x).sum().backward()
    return [p.grad.norm() for p in s.model.parameters()]


@program
def zeroes_before(s):
    s.optimizer.zero_grad(set_to_none=False)
    s.model(s.x).sum().backward()


@program
def clips(s):
    s.model(s.x).pow(2).sum().backward()
    norm = nn.utils.clip_grad_norm_(s.model.parameters(), 0.5)
    nn.utils.clip_grad_value_(s.model.parameters(), 0.1)
    return norm


@program
def steps_by_hand(s):
    loss = s.model(s.x).pow(2).mean()
    grads = torch.autograd.grad(loss, list(s.model.parameters()))
    with torch.no_grad():
        for p, grad in zip(s.model.parameters(), grads, strict=True):
            p.sub_(grad, alpha=0.1)
    return loss


@program
def steps(s):
    s.optimizer.zero_grad()
    loss = F.mse_loss(s.model(s.x), torch.ones(5, 2))
    loss.backward()
    s.optimizer.step()
    return loss


@program
def under_autocast(s):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = s.model(s.x).float().sum()
    loss.backward()
    return loss


@program
def learns_to_learn(s):
    params = dict(s.model.named_parameters())
    inner = torch.func.functional_call(s.model, params, (s.x,)).pow(2).mean()
    grads = torch.autograd.grad(inner, list(params.values()), create_graph=True)
    moved = {name: p - 0.1 * grad for (name, p), grad in zip(params.items(), grads, strict=True)}
    outer = torch.func.functional_call(s.model, moved, (s.x + 1,)).pow(2).mean()
    s.optimizer.zero_grad()
    outer.backward()
    s.optimizer.step()
    return outer.detach()


@elsewhere
def a_leaf_made_inside(s):
    leaf = (s.x * 2).requires_grad_()
    (leaf * leaf).sum().backward()
    return leaf, leaf.grad


@elsewhere
def penalty(s):
    x = s.x.detach().requires_grad_()
    out = s.model(x)
    (grad,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    loss = out.sum() + (grad.norm(dim=1) - 1).pow(2).mean()
    loss.backward()
    return loss, x.grad


@elsewhere
def keeps_a_graph_of_gradients(s):
    (s.w**3).sum().backward(create_graph=True)
    grad = s.w.grad
    s.w.grad = None
    return grad


@elsewhere
def gives_what_can_still_be_differentiated(s):
    kept = s.v.sin()
    (s.w * s.v).sum().backward()
    return kept


@elsewhere
def keeps_the_graph(s):
    loss = (s.w * s.w).sum()
    loss.backward(retain_graph=True)
    return loss


@elsewhere
def listens(s):
    handle = s.w.register_hook(lambda grad: s.seen.append(("hook", grad.sum().item())))
    (s.w * s.v).sum().backward()
    s.seen.append("behind")
    handle.remove()


@elsewhere
def listens_where_gradients_are_added(s):
    node = torch.autograd.graph.get_gradient_edge(s.w).node
    handle = node.register_hook(lambda *grads: s.seen.append("added"))
    framejit.graph_break()
    (s.w * s.v).sum().backward()
    s.seen.append("behind")
    handle.remove()


@program
def records_in_spite_of_the_caller(s):
    with torch.enable_grad():
        loss = (s.w * s.v).sum()
        loss.backward()
    return loss


@elsewhere
def goes_on_from_outside(s):
    y = s.w.exp()
    framejit.graph_break()
    (y * y).sum().backward()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@program
def through_a_function(s):
    Doubled.apply(s.w).sum().backward()


@elsewhere
def second_time(s):
    loss = (s.w * s.w).sum()
    loss.backward()
    loss.backward()


@elsewhere
def of_no_scalar(s):
    (s.w * 2).backward()


@elsewhere
def of_nothing(s):
    s.x.sum().backward()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [*PROGRAMS, *ELSEWHERE])
@pytest.mark.filterwarnings("ignore:Using backward")
def test_gradients_asked_for_inside_are_eagers(name: str, backend: str) -> None:
    fn = PROGRAMS.get(name) or ELSEWHERE[name]
    expected, state = State(), State()
    framejit.reset()
    compiled = framejit.compile(fn, backend=backend)
    for _ in range(3):
        Comparison().same([outcome(compiled, state), state.portrait()], [outcome(fn, expected), expected.portrait()])
    found = framejit.statistics()
    if name in PROGRAMS:
        assert found["graph_breaks"] == 0 and found["graphs"] <= 2, found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["records_in_spite_of_the_caller", "backward", "steps"])
def test_programs_under_no_grad(name: str, backend: str) -> None:
    expected, state = State(), State()
    compiled = framejit.compile(PROGRAMS[name], backend=backend)
    with torch.no_grad():
        for _ in range(3):
            Comparison().same([outcome(compiled, state), state.portrait()], [outcome(PROGRAMS[name], expected), expected.portrait()])


@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_on_several_leaves(backend: str) -> None:
    told = []
    for call in (backward, framejit.compile(backward, backend=backend)):
        state, seen = State(), []
        handle = torch.autograd.graph.register_multi_grad_hook(
            list(state.model.parameters()), lambda grads, seen=seen: seen.append([grad.sum().item() for grad in grads])
        )
        call(state)
        call(state)
        handle.remove()
        call(state)
        told.append([seen, state.portrait()])
    Comparison().same(told[1], told[0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["backward", "gives_what_can_still_be_differentiated", "keeps_the_graph"])
def test_a_result_can_be_differentiated_as_often_as_in_eager(name: str, backend: str) -> None:
    fn = PROGRAMS.get(name) or ELSEWHERE[name]
    told = []
    for call in (fn, framejit.compile(fn, backend=backend)):
        state = State()
        result = call(state).sum()
        told.append([outcome(result.backward), outcome(result.backward), state.portrait()])
    Comparison().same(told[1], told[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_are_added_in_place(backend: str) -> None:
    state = State()
    compiled = framejit.compile(backward, backend=backend)
    compiled(state)
    grads = [p.grad for p in state.model.parameters()]
    compiled(state)
    assert all(p.grad is grad for p, grad in zip(state.model.parameters(), grads, strict=True))


def hook(s: State) -> None:
    s.w.register_hook(lambda grad: s.seen.append(grad.sum().item()))


def post_hook(s: State) -> None:
    s.w.register_post_accumulate_grad_hook(lambda leaf: s.seen.append(leaf.grad.sum().item()))


def no_leaf(s: State) -> None:
    s.w = s.w.exp()
    s.w.retain_grad()


def frozen(s: State) -> None:
    s.w.requires_grad_(False)


def cleared(s: State) -> None:
    s.w.grad = None


def of_another_layout(s: State) -> None:
    s.w.grad = torch.ones(3, 3).t()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("change", [hook, post_hook, no_leaf, frozen, cleared, of_another_layout])
@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_what_changes_between_calls(change: Callable[[State], None], backend: str) -> None:
    def fn(s):
        (s.w * s.v).sum().backward()

    told = []
    for call in (fn, framejit.compile(fn, backend=backend)):
        state = State()
        call(state)
        change(state)
        told.append([outcome(call, state), outcome(call, state), picture(state.w.grad), picture(state.v.grad), state.seen])
    Comparison().same(told[1], told[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_vary(backend: str) -> None:
    expected, state = State(), State()
    framejit.reset()
    compiled = framejit.compile(steps_on, backend=backend)
    for size in (4, 7, 9, 1, 12):
        x = torch.randn(size, 3)
        Comparison().same([outcome(compiled, state, x), state.portrait()], [outcome(steps_on, expected, x), expected.portrait()])
    assert framejit.statistics()["graph_breaks"] == 0 and framejit.statistics()["graphs"] <= 4


def steps_on(s, x):
    s.optimizer.zero_grad()
    loss = s.model(x).pow(2).mean()
    loss.backward()
    s.optimizer.step()
    return loss


def test_a_step_is_one_graph_for_inductor() -> None:
    expected, state = State(), State()
    framejit.reset()
    compiled = framejit.compile(steps, backend="inductor")
    for _ in range(4):
        torch.testing.assert_close(compiled(state), steps(expected))
    for p, q in zip(state.model.parameters(), expected.model.parameters(), strict=True):
        torch.testing.assert_close(p, q)
    assert framejit.statistics()["graph_breaks"] == 0 and framejit.statistics()["graphs"] <= 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_fullgraph_takes_a_whole_step(backend: str) -> None:
    expected, state = State(), State()
    compiled = framejit.compile(steps, backend=backend, fullgraph=True)
    for _ in range(3):
        Comparison().same([outcome(compiled, state), state.portrait()], [outcome(steps, expected), expected.portrait()])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_model_is_freed(backend: str) -> None:
    state = State()
    framejit.compile(steps, backend=backend)(state)
    gone = weakref.ref(state.model)
    del state
    gc.collect()
    assert gone() is None


def dropped_first(model, x):
    model.zero_grad()
    model(x).sum().backward()


def dropped_between(model, x):
    loss = model(x).sum()
    model.zero_grad()
    loss.backward()


def read_before(model, x):
    kept = model.weight.grad
    model.weight.grad = None
    model(x).sum().backward()
    return kept * 2


def put_back(model, x):
    kept, model.weight.grad = model.weight.grad, None
    model(x).sum().backward()
    found, model.weight.grad = model.weight.grad, kept
    return found


def added_to(model, x):
    model(x).sum().backward()


@pytest.mark.only_eager("a backend of its own")
@pytest.mark.parametrize("step, freed", [(dropped_first, True), (dropped_between, True), (read_before, False), (put_back, False), (added_to, False)])
def test_gradients_that_are_dropped_are_freed_before_the_graph_runs(
    step: Callable[..., Any], freed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a step would need memory for all gradients twice."""
    alive: list[bool] = []
    old: list[Any] = []

    def watching(gm, example_inputs):
        run = eager.call(gm, example_inputs)

        def watched(inputs):
            alive.append(old[-1]() is not None)
            return run(inputs)

        return backend_eager.boxed(watched)

    eager = backend_eager.BACKEND
    monkeypatch.setattr(backend_eager, "BACKEND", replace(eager, call=watching))
    torch.manual_seed(0)
    model = nn.Linear(3, 4, bias=False)
    expected, compiled = copy.deepcopy(model), framejit.compile(step, backend="eager", isolate_recompiles=True)
    for _ in range(3):
        x = torch.randn(2, 3)
        for each in (model, expected):
            each.weight.grad = torch.ones(4, 3)
        old.append(weakref.ref(model.weight.grad))
        Comparison().same((step(expected, x), expected.weight.grad), (compiled(model, x), model.weight.grad))
    assert alive == [not freed] * 3


def test_an_error_of_the_graph_leaves_gradients_to_handlers_as_they_were() -> None:
    def step(model, x, index):
        try:
            loss = model(x)[index].sum()
            model.zero_grad()
            loss.backward()
        except IndexError:
            return model.weight.grad

    model = nn.Linear(3, 4, bias=False)
    compiled = framejit.compile(step, backend="eager")
    compiled(model, torch.randn(2, 3), torch.tensor([0, 1]))
    before = model.weight.grad
    assert compiled(model, torch.randn(2, 3), torch.tensor([7])) is before is model.weight.grad


def test_a_part_that_gets_no_gradient_beside_one_that_is_used_up() -> None:
    def step(model, x):
        left, right = model(x).chunk(2, -1)
        left.square().sum().backward()
        return left.detach(), right.tanh()

    torch.manual_seed(0)
    model, x = nn.Linear(3, 4), torch.randn(2, 3)
    Comparison().same(step(copy.deepcopy(model), x)[0], framejit.compile(step, backend="aot_eager")(model, x)[0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("in_place", [torch.relu_, lambda x: F.relu(x, inplace=True), lambda x: F.dropout(x, 0.5, inplace=True)])
def test_a_change_in_place_that_needs_its_result_behind_a_change_of_a_leaf(in_place: Callable[..., Any], backend: str) -> None:
    def clipped(w, x):
        with torch.no_grad():
            w.clamp_(-0.5, 0.5)
        h = x @ w
        in_place(h)
        return (h * 2).sum()

    compiled = framejit.compile(clipped, backend=backend, isolate_recompiles=True)
    torch.manual_seed(0)
    w, x = torch.randn(3, 3), torch.randn(5, 3)
    left, right = (w.clone().requires_grad_() for _ in range(2))
    for _ in range(2):
        for program, leaf in ((clipped, left), (compiled, right)):
            torch.manual_seed(1)
            program(leaf, x).backward()
        Comparison().same((left, left.grad), (right, right.grad))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rows", [3, 5])
def test_a_change_of_an_expanded_tensor_that_is_made_inside(rows: int, backend: str) -> None:
    def copied_onto_itself(x):
        z = (x * 2)[:1].expand(len(x), 4)
        z.copy_(z[:1].expand_as(z))
        return z + 1, z

    framejit.reset()
    compiled = framejit.compile(copied_onto_itself, backend=backend, isolate_recompiles=True)
    for count in (rows, rows, rows + 1, rows + 2):
        x = torch.randn(count, 4)
        Comparison().same(copied_onto_itself(x), compiled(x))
    assert framejit.statistics()["fallbacks"] == 0
    assert framejit.statistics()["graph_breaks"] == (1 if backend == "eager" else 2)  # of sizes that vary, fakes say nothing


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_for_a_view_that_was_made_without_gradients(backend: str) -> None:
    """It requires one, and none arrives: eager raises, also after a graph break, where the view comes from outside."""

    def program(x: torch.Tensor, is_split: bool) -> Any:
        with torch.no_grad():
            view = x[1:]
        if is_split:
            framejit.graph_break()
        return torch.autograd.grad(view.square().sum(), view)[0]

    for is_split in (False, True):
        with pytest.raises(RuntimeError, match="not have been used in the graph"):
            program(torch.arange(4.0).requires_grad_(), is_split)
        with pytest.raises(RuntimeError, match="not have been used in the graph"):
            framejit.compile(program, backend=backend)(torch.arange(4.0).requires_grad_(), is_split)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_in_the_inference_mode(backend: str) -> None:
    """None are recorded there: eager raises, for a parameter and for a tensor of that mode, which requires a gradient all the same."""

    def program(x: torch.Tensor) -> Any:
        return torch.autograd.grad(x.square().sum(), x)[0]

    parameter, compiled = torch.ones(3, requires_grad=True), framejit.compile(program, backend=backend)
    with torch.inference_mode():
        for x in (parameter, torch.ones(3).requires_grad_()):
            for function in (program, compiled):
                with pytest.raises(RuntimeError, match="does not require grad"):
                    function(x)


def test_a_tensor_of_the_inference_mode_that_requires_a_gradient() -> None:
    with torch.inference_mode():
        x = torch.ones(3).requires_grad_()
    with torch.no_grad():
        found = framejit.compile(lambda t: t.exp() * 2, backend="eager")(x)
    assert torch.equal(found, x.detach().exp() * 2) and not found.requires_grad
