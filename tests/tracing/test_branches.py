"""Branches on the data of tensors: both ways are in the graph where that is right, and results, gradients, aliases and effects are eager's everywhere."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import Comparison
from branch_programs import PROGRAMS, WITH_AOTAUTOGRAD, random_program
from torch import nn
from torch.utils import _pytree as pytree
from undo import undoing

import framejit
from framejit.errors import BadArgument, Unsupported
from framejit.tracing.branches import MOST_NESTED
from framejit.tracing.tracer import Tracer

BACKENDS = ("eager", "aot_eager")
CALLS = [(torch.tensor([1.0, 2.0, 3.0]) * a, torch.tensor([0.5, 0.25, 1.0]) * b) for a in (1, -1) for b in (1, -1)]
CALLS += [(torch.zeros(3), torch.ones(3)), (torch.tensor([float("nan"), 1.0, 2.0]), torch.ones(3))]


def outcome(function: Callable[..., Any], args: tuple[Any, ...], training: bool) -> Any:
    """Return a call's result, the flags of its tensors, the gradients, and results and arguments after a change, which shows shared memory."""
    torch.manual_seed(0)
    args = tuple([arg.clone().requires_grad_(training) if isinstance(arg, torch.Tensor) else copy.copy(arg) for arg in args])
    try:
        result = function(*args)
    except RuntimeError as error:
        return type(error), str(error)
    tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    of_arguments = [[leaf is arg for arg in args] for leaf in tensors]
    recorded = [leaf.requires_grad for leaf in tensors]
    found = copy.deepcopy(pytree.tree_map(lambda leaf: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf, result))
    gradients: Any = None
    if any(recorded):
        loss = sum((leaf * leaf).sum() for leaf in tensors if leaf.requires_grad)
        try:
            found_gradients = torch.autograd.grad(loss, [arg for arg in args if isinstance(arg, torch.Tensor)], allow_unused=True)
            gradients = [None if gradient is None else gradient.clone() for gradient in found_gradients]
        except RuntimeError:
            gradients = "can't be differentiated"
    with torch.no_grad():
        for leaf in tensors:
            leaf.add_(1)
    return found, of_arguments, recorded, gradients, [leaf.detach() for leaf in tensors], [getattr(arg, "data", arg) for arg in args]


def compare(function: Callable[..., Any], training: bool, calls: Any = CALLS, **options: Any) -> tuple[int, int]:
    """Compare a compiled function with eager over calls. Returns the number of graph breaks and of graphs."""
    framejit.reset()
    with framejit.config.replace(check="compile,guards"):
        compiled = framejit.compile(function, **{"backend": "eager", **options})
        for args in calls:
            Comparison().same(outcome(function, args, training), outcome(compiled, args, training), str(args))
    found = framejit.statistics()
    assert found["fallbacks"] == 0
    return found["graph_breaks"], found["graphs"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs(program, training, backend):
    joins = (PROGRAMS if backend == "eager" else WITH_AOTAUTOGRAD)[program][training]
    breaks, graphs = compare(program, training, backend=backend)
    assert (breaks == 0) is joins and (graphs == 1 or not joins), (breaks, graphs)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("around", [False, True], ids=["in the way", "around the branch"])
def test_an_error_of_a_write_in_a_way_is_handled(backend, around):
    def inside(x, place):
        found = torch.zeros(3)
        if x.sum() > 0:
            try:
                found.index_add_(0, place, torch.ones(1))
            except IndexError:
                found = found + 9
        return found

    def outside(x, place):
        found = torch.zeros(3)
        try:
            if x.sum() > 0:
                found.index_add_(0, place, torch.ones(1))
        except IndexError:
            found = found + 9
        return found

    program = outside if around else inside
    compiled = framejit.compile(program, backend=backend, fullgraph=True)
    for sign, index in [(1, 0), (-1, 5), (1, 5), (1, 1), (-1, 0), (1, 7)]:
        given = torch.ones(2) * sign, torch.tensor([index])
        with torch.no_grad():
            assert torch.equal(compiled(*given), program(*given))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_write_to_a_view_with_gaps_splits_graphs_of_aotautograd(backend):
    def program(x, y):
        h = torch.outer(x, y)
        column = h[:, 1]
        if x.sum() > 0:
            column.add_(1)
        return h * 1

    breaks, _ = compare(program, False, backend=backend)
    assert (breaks == 0) is (backend == "eager")


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", ["else_branch", "without_else", "returns", "nested", "both_conditions"])
def test_inductor(name, training):
    program = next(program for program in PROGRAMS if program.__name__ == name)
    framejit.reset()
    compiled = framejit.compile(program, backend="inductor")
    for args in CALLS[:4]:
        torch.testing.assert_close(outcome(compiled, args, training), outcome(program, args, training))
    assert (framejit.statistics()["graph_breaks"] == 0) is WITH_AOTAUTOGRAD[program][training]


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed, training):
    torch.manual_seed(seed)
    calls = [(torch.randn(3), torch.randn(3), torch.randn(3), []) for _ in range(4)]
    compare(random_program(seed), training, calls)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["both_ways_write", "nested_writes", "writes_to_a_constant", "gives_what_it_writes_to", "without_else"])
def test_inference_mode(name, backend):
    program = next(program for program in PROGRAMS if program.__name__ == name)

    @torch.inference_mode()
    def infers(x, y):
        return program(x, y)

    def results(function):
        return [function(x.clone(), y.clone()) for x, y in CALLS]

    framejit.reset()
    Comparison().same(results(infers), results(framejit.compile(infers, backend=backend)), name)
    assert framejit.statistics()["graph_breaks"] == 0


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router, self.register = nn.Linear(4, 3), nn.Buffer(torch.zeros(3))
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 4)) for _ in range(3)])

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(1, -1)
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            rows, place = torch.where(chosen == index)
            if rows.numel() == 0:
                continue
            self.register[index] += 1
            out.index_add_(0, rows, expert(x[rows]) * weights[rows, place, None])
        return x + out


@pytest.mark.parametrize("backend", [*BACKENDS, "inductor"])
def test_experts_without_tokens_are_skipped_in_the_graph(backend):
    torch.manual_seed(0)
    framejit.reset()
    model = Experts()
    copied = copy.deepcopy(model)
    compiled = framejit.compile(copied, backend=backend)
    with torch.no_grad():
        for index in (None, 0, 2, None):
            for each in (model, copied) if index is not None else ():
                each.router.bias.copy_(torch.eye(3)[index] * 50)
            x = torch.randn(5, 4)
            torch.testing.assert_close(compiled(x), model(x))
            assert torch.equal(copied.register, model.register)
    assert (framejit.statistics()["graphs"], framejit.statistics()["graph_breaks"]) == (1, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_experts_without_tokens_get_no_gradients(backend):
    torch.manual_seed(0)
    framejit.reset()
    model = Experts()
    copied = copy.deepcopy(model)
    compiled = framejit.compile(copied, backend=backend)
    for index in (None, 0, 2):
        for each in (model, copied):
            each.zero_grad()
            if index is not None:
                each.router.bias.data.copy_(torch.eye(3)[index] * 50)
        x = torch.randn(5, 4)
        model(x).sum().backward()
        compiled(x).sum().backward()
        for (name, eager), found in zip(model.named_parameters(), copied.parameters(), strict=True):
            Comparison().same(eager.grad, found.grad, name)


@pytest.mark.parametrize(
    "name",
    ["else_branch", "without_else", "returns", "nested", "leaves_a_loop", "changes_a_list", "may_be_another", "called", "skips_empty_rows", "nested_writes"],
)
def test_instructions_can_be_undone(name):
    program = next(program for program in PROGRAMS if program.__name__ == name)
    with undoing(0.3, name):
        compare(program, False)


# What the graph is.


def test_both_ways_are_one_node(caplog, capsys):
    def program(x):
        h = x.sin()
        h = h * 2 if h.sum() > 0 else h - 1
        return h.cos()

    framejit.set_logs("graph_code")
    try:
        framejit.compile(program, backend="eager")(torch.ones(3))
    finally:
        framejit.set_logs()
    text = caplog.text + "".join(capsys.readouterr())
    assert text.count("_one_of(gt, inner_0, inner_1, (sin,))") == 1 and text.count("sin * 2") == text.count("sin - 1") == 1


def test_fullgraph():
    def program(x):
        return x * 2 if x.sum() > 0 else x - 1

    assert compare(program, False, [(arg,) for arg, _ in CALLS], fullgraph=True) == (0, 1)


def test_the_option_splits_calls():
    def program(x):
        return x * 2 if x.sum() > 0 else x - 1

    calls = [(arg,) for arg, _ in CALLS]
    assert compare(program, False, calls, branches="break")[0] == 1
    with pytest.raises(Unsupported, match="FJ005"):
        framejit.compile(program, backend="eager", branches="break", fullgraph=True)(torch.ones(3))
    with pytest.raises(BadArgument, match="branches must be None or 'break'"):
        framejit.compile(program, branches="join")


def test_backends_made_for_torch_compile_get_no_branches():
    def program(x):
        return x * 2 if x.sum() > 0 else x - 1

    assert compare(program, False, [(arg,) for arg, _ in CALLS], backend=lambda graph, inputs: graph)[0] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_vary(backend):
    def program(x, y):
        h = x * x.size(0)
        h = torch.cat([h, y]) if h.sum() > 0 else torch.cat([y, h]) / h.shape[0]
        return h + 1

    calls = [(torch.randn(n), torch.randn(n)) for n in (3, 5, 8, 4)]
    assert compare(program, False, calls, backend=backend, dynamic=True) == (0, 1)


# Why it isn't.


def advice(program: Callable[..., Any], *args: Any) -> str:
    framejit.reset()
    with pytest.raises(Unsupported) as caught:
        framejit.compile(program, backend="eager", fullgraph=True)(*args)
    return str(caught.value)


def test_breaks_say_why():
    seen = []

    def values(x):
        scale = 1 if x.sum() > 0 else 2
        return x * scale

    def kinds(x):
        return x if x.sum() > 0 else x.double()

    def effects(x):
        if x.sum() > 0:
            seen.append("positive")
        return x

    def inside(x):
        if x.sum() > 0:
            x = x * (1 if x.max() > 2 else 2)
        return x * 2

    def aliases(x):
        h = g = x.sin()
        if x.sum() > 0:
            g = h * 2
        g.add_(1)
        return h

    def factorises(x):
        return torch.linalg.cholesky(torch.outer(x, x) + torch.eye(3)) if x.sum() > 0 else torch.outer(x, x) * 2

    for program, expected in (
        (factorises, "a way that factorises a matrix"),
        (values, "different values: 1 and 2"),
        (kinds, "float64"),
        (effects, "a function with side effects"),
        (inside, "different values: 1 and 2"),
        (aliases, "may be one from before"),
    ):
        text = advice(program, torch.ones(3))
        assert "FJ005" in text and "Both ways of the branch can't be in the graph" in text and expected in text, text


def test_ways_that_need_different_parameters_split_calls_that_train():
    """In eager, the parameters of the other way get no gradient, not even zeros, and an optimizer leaves them alone."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            return self.one(x) if x.sum() > 0 else self.other(x)

    torch.manual_seed(0)
    for backend in BACKENDS:
        framejit.reset()
        model = Model()
        compiled = framejit.compile(model, backend=backend)
        for x, _ in CALLS[:4]:
            model.zero_grad()
            compiled(x).sum().backward()
            unused = model.other if x.sum() > 0 else model.one
            assert unused.weight.grad is None
        assert framejit.statistics()["graph_breaks"] == (backend != "eager")
        framejit.reset()
        with torch.no_grad():
            for x, _ in CALLS[:4]:
                torch.testing.assert_close(compiled(x), model(x))
        assert framejit.statistics()["graph_breaks"] == 0


def test_a_long_loop_that_the_data_ends_is_split():
    def program(x, n):
        for _ in range(n):
            if x.sum() > 100:
                break
            x = x + x.abs()
        return x * 2

    calls = [(torch.ones(3), MOST_NESTED - 2), (torch.full((3,), 50.0), MOST_NESTED - 2)]
    assert compare(program, False, calls)[0] == 0
    assert compare(program, False, [(torch.ones(3), 3 * MOST_NESTED)])[0] >= 1


def test_a_way_that_fails_is_not_taken():
    def program(x):
        return (x.reshape(7) if x.sum() > 100 else x * 1) + 1

    assert compare(program, False, [(arg,) for arg, _ in CALLS])[0] == 1


def read_at_once(x: torch.Tensor) -> torch.Tensor:
    positive = (x.sum() > 0).item()
    return x + 1 if positive else x - 1


def read_and_then_changed(x: torch.Tensor) -> torch.Tensor:
    condition = x.sum() > 0
    positive = condition.item()
    condition.logical_not_()
    return x + 1 if positive else x - 1


def two_read_before(x: torch.Tensor) -> torch.Tensor:
    positive, large = (x > 0).any().item(), (x > 1).any().item()
    return x + 1 if positive and not large else x - 1


def count_read(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if (x > 0).sum().item() else x * 3


@pytest.mark.only_eager(reason="names its backends itself")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("function", [read_at_once, read_and_then_changed, two_read_before, count_read], ids=lambda function: function.__name__)
def test_bools_that_are_read_decide_in_training(function: Callable[[torch.Tensor], torch.Tensor], backend: str) -> None:
    """Inductor's code for backward passes gets no numbers that a branch depends on: the branch takes the tensor, unless that has changed."""
    framejit.reset()
    compiled = framejit.compile(function, backend=backend)
    for data in (torch.linspace(0.1, 0.5, 5), -torch.linspace(0.1, 0.5, 5), torch.linspace(0.5, 2, 5)):
        gradients = []
        for call in (compiled, function):
            x = data.clone().requires_grad_()
            found = call(x * 1)
            found.sum().backward()
            gradients += [found.detach(), x.grad]
        assert torch.equal(gradients[0], gradients[2]) and torch.equal(gradients[1], gradients[3])
    assert function is read_and_then_changed or framejit.statistics()["graphs"] == 1


def gradient(x, w):
    h = x * w
    g = h.sum() if x.sum() > 0 else (h * h).sum()
    return torch.autograd.grad(g, w, create_graph=True)[0].square().sum()


def gradient_and_backward(x, w):
    gradient(x, w).backward()
    return x.grad, w.grad


def gradient_twice(x, w):
    return torch.autograd.grad(gradient(x, w), [x, w], allow_unused=True)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [gradient, gradient_and_backward, gradient_twice])
def test_gradients_of_gradients_are_those_of_the_way_that_runs(function: Callable[..., Any], backend: str) -> None:
    found = []
    for call in (function, framejit.compile(function, backend=backend)):
        for factor in (1, -1):
            x, w = (torch.tensor([1.0, 2.0, 3.0]) * factor).requires_grad_(), torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
            result = call(x, w)
            if isinstance(result, torch.Tensor):
                result.backward()
                result = x.grad, w.grad
            found.append(result)
    Comparison().same(found[:2], found[2:])
    assert found[0][1] is None


def test_a_write_of_rows_that_is_skipped_spoils_no_gradient_of_what_is_added_to_a_tensor_from_outside() -> None:
    def fn(total, x, w):
        y = x * w
        squares = y * y
        rows = x > 0
        if rows.any():
            y[rows] = w[rows]
        total.add_(squares)

    compiled = framejit.compile(fn, backend="eager")
    for sign in (-1.0, 1.0):
        total, w = torch.zeros(3), torch.ones(3, requires_grad=True)
        compiled(total, torch.ones(3) * sign, w)
        if sign > 0:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                total.sum().backward()
        else:
            total.sum().backward()
            assert w.grad.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("arm", [lambda x: x[:1], torch.neg, lambda x: torch.rand(2) * x], ids=["a break", "a tensor", "a drawn number"])
def test_a_branch_keeps_nothing_of_its_trace(arm: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Not even until the garbage collector runs: reset() would leave an entry that others may share."""

    def program(x: torch.Tensor) -> torch.Tensor:
        y = arm(x) if x.sum() > 0 else x + 1
        return y * 2

    gc.collect()
    gc.disable()
    try:
        framejit.compile(program, backend="eager")(torch.ones(2))
        assert not [each for each in gc.get_objects() if type(each) is Tracer]
    finally:
        gc.enable()
