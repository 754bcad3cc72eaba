"""`tensor.data = value` in compiled code."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from agreement import Comparison, agree

import framejit


def momentum(step_by_step):
    def step(query, key, x):
        with torch.no_grad():
            for q, k in zip(query.parameters(), key.parameters(), strict=True):
                if step_by_step:
                    k.data = k.data * 0.9
                    k.data = k.data + q.data * 0.1
                else:
                    k.data = k.data * 0.9 + q.data * 0.1
            return key(x)

    return step


def sgd(model, x):
    model.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    for p in model.parameters():
        p.data = p.data - 0.1 * p.grad
    return loss.detach()


def clipped(model, x):
    sgd(model, x)
    for p in model.parameters():
        p.data = p.data.clamp(-0.1, 0.1)
    loss = model(x).sum()
    loss.backward()
    return loss.detach()


def normalized(model, x):
    model.weight.data = F.normalize(model.weight.data, dim=1)
    return model(x)


def used_before_and_asked_after(model, x):
    loss = (model(x) * model.weight.sum()).sum()
    model.weight.data = model.weight.data * 2
    loss.backward()
    return loss.detach()


def noisy(model, x):
    kept = model.weight.data
    model.weight.data = kept + 1
    result = model(x).detach()
    model.weight.data = kept
    return result


def views_stay(model, x):
    view = model.weight.detach().view(-1)
    model.weight.data = model.weight.data + 1
    view.zero_()
    model.weight.data.mul_(2)
    return view, model.weight.sum().detach()


def shared(model, x):
    value = torch.ones_like(model.weight)
    model.weight.data = value
    value += 1
    return value, model.weight.sum().detach()


def stepped(model, x):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    for p in model.parameters():
        p.data = p.data * 0.5
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
    return loss.detach()


def behind_a_break(model, x):
    model.weight.data = model.weight.data + 1
    framejit.graph_break()
    return model(x)


def refused(model, x):
    model.weight.data = torch.ones(2, 2)
    try:
        model.bias.data = torch.ones(3, dtype=torch.int64)
    except Exception as error:
        return model.weight, str(error)
    return model.weight


def result_of(function, model, x, calls):
    results = [function(model, x + index) for index in range(calls)]
    state = [(name, p.detach().clone(), None if p.grad is None else p.grad.clone(), p.stride()) for name, p in model.named_parameters()]
    return [[item.detach().clone() if isinstance(item, torch.Tensor) else item for item in (r if isinstance(r, tuple) else (r,))] for r in results], state


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "function",
    [sgd, clipped, normalized, used_before_and_asked_after, noisy, views_stay, shared, stepped, behind_a_break, refused],
    ids=lambda function: function.__name__,
)
def test_parameters_that_are_given_other_memory_are_as_in_eager(function, backend):
    torch.manual_seed(0)
    model, x = nn.Linear(3, 3), torch.randn(4, 3)
    other = copy.deepcopy(model)
    expected = result_of(function, model, x, 3)
    found = result_of(framejit.compile(function, backend=backend, isolate_recompiles=True), other, x, 3)
    Comparison().same(expected, found)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("step_by_step", [False, True])
def test_a_momentum_encoder_is_one_graph(step_by_step, backend):
    torch.manual_seed(0)
    query, key, x = nn.Linear(3, 3), nn.Linear(3, 3).requires_grad_(False), torch.randn(4, 3)
    other = copy.deepcopy(key)
    step = momentum(step_by_step)
    compiled = framejit.compile(step, backend=backend, fullgraph=True, isolate_recompiles=True)
    before = framejit.statistics()["graphs"]
    for _ in range(3):
        assert torch.equal(compiled(query, other, x), step(query, key, x))
        for mine, theirs in zip(key.parameters(), other.parameters(), strict=True):
            assert torch.equal(mine, theirs)
    assert framejit.statistics()["graphs"] - before == 1


def test_gradients_from_outside_reach_the_parameter():
    torch.manual_seed(0)
    model, x = nn.Linear(3, 3), torch.randn(4, 3)
    other = copy.deepcopy(model)
    normalized(model, x).sum().backward()
    framejit.compile(normalized, backend="eager")(other, x).sum().backward()
    assert torch.equal(other.weight.grad, model.weight.grad)
    assert torch.equal(other.weight, model.weight)


def test_a_tensor_that_the_program_made_may_be_given_other_memory():
    def program(x):
        made = x + 1
        view = made[0]
        made.data = made.data * 2
        made.add_(1)
        return made, view, made.sum()

    agree(program, torch.randn(3, 2), fullgraph=True)


def test_memory_that_was_replaced_is_freed():
    model, x = nn.Linear(3, 3).requires_grad_(False), torch.randn(4, 3)
    compiled = framejit.compile(normalized, backend="eager")
    compiled(model, x)
    old = weakref.ref(model.weight.untyped_storage())
    gc.collect()
    assert old() is not None
    compiled(model, x)
    gc.collect()
    assert old() is None


def longer(x):
    x.data = torch.cat([x.data, x.data])
    x.add_(1)
    return x * x.shape[0], x.stride(), x[-1]


def shorter(x):
    before = x.shape[0]
    x.data = x.data[1:].reshape(-1, 1)
    return x + before, x.numel(), x.dim()


def followed_by_a_break(x):
    x.data = torch.zeros(2, 3).t()
    framejit.graph_break()
    return x.add_(1), x.stride()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [longer, shorter, followed_by_a_break])
def test_memory_of_another_shape(function, backend):
    compiled = framejit.compile(function, backend=backend, isolate_recompiles=True, fullgraph=function is not followed_by_a_break)
    before = framejit.statistics()["graphs"]
    for size in (3, 4, 5, 6):
        mine, theirs = torch.arange(float(size)), torch.arange(float(size))
        Comparison().same((function(mine), mine), (compiled(theirs), theirs))
    assert function is followed_by_a_break or framejit.statistics()["graphs"] - before == 2


def test_a_buffer_that_grows():
    class Growing(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.ones(2))

        def forward(self, x):
            self.seen.data = torch.cat([self.seen, x])
            return self.seen.sum() + len(self.seen)

    model, other = Growing(), Growing()
    compiled = framejit.compile(other, backend="eager", fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2)), model(torch.ones(2)))
        assert torch.equal(other.seen, model.seen)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("changed", ["the base", "the view"])
def test_a_view_and_its_base_that_have_other_data_than_each_other(changed: str, backend: str) -> None:
    """As of parameters whose data is replaced while something holds a view of them. AOTAutograd would make the view again from its base."""

    def program(whole: torch.Tensor, part: torch.Tensor) -> Any:
        whole.add_(1)
        part.mul_(2)
        return whole * 1, part * 1

    def outcomes(run: Any) -> Any:
        whole = torch.zeros(4)
        part = whole[1:]
        found = [run(whole, part)]
        if changed == "the base":
            whole.data = whole.data + 1
        else:
            part.data = part.data + 1
        found += [run(whole, part), run(whole, part)]
        return [*found, whole, part]

    expected = outcomes(program)
    for one, other in zip(torch.utils._pytree.tree_leaves(outcomes(framejit.compile(program, backend=backend))), torch.utils._pytree.tree_leaves(expected)):
        assert torch.equal(one, other)


def both_changed(one: torch.Tensor, other: torch.Tensor) -> Any:
    one.add_(1)
    other.mul_(2)
    return one + other.sum()


def one_changed(one: torch.Tensor, other: torch.Tensor) -> Any:
    one.mul_(3)
    return other + 1


def views_returned(one: torch.Tensor, other: torch.Tensor) -> Any:
    return one[1:], other.view(-1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("replaced", ["the base", "the view"])
@pytest.mark.parametrize("program", [both_changed, one_changed, views_returned])
def test_views_whose_base_is_given_other_data_between_calls(program: Any, replaced: str, backend: str) -> None:
    """AOTAutograd made such views again from their base, which no longer had their data."""

    def outcomes(run: Any) -> Any:
        base = torch.arange(8.0)
        views = base[1:5], base[2:6]
        found = [run(*views)]
        for _ in range(2):
            tensor, size = (base, 8) if replaced == "the base" else (views[0], 4)
            tensor.data = torch.full((size,), 7.0)
            found += [run(*views), [each.clone() for each in (base, *views)]]
        return found

    expected = outcomes(program)
    for one, other in zip(torch.utils._pytree.tree_leaves(outcomes(framejit.compile(program, backend=backend))), torch.utils._pytree.tree_leaves(expected)):
        assert torch.equal(one, other)


def test_views_of_other_bases_and_tensors_that_are_no_views_run_the_same_code() -> None:
    compiled = framejit.compile(views_returned, backend="aot_eager")
    before = framejit.statistics()["graphs"]
    for base in (torch.arange(8.0), torch.arange(12.0)):
        compiled(base[1:5], base[2:6])
    compiled(torch.arange(4.0), torch.arange(4.0) + 1)
    assert framejit.statistics()["graphs"] == before + 1


def unrecorded_by_detach(x: torch.Tensor) -> Any:
    part = x.detach()
    part.add_(1)
    return part * 1


def unrecorded_by_data(x: torch.Tensor) -> Any:
    x.data.mul_(2)
    return x * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("program", [unrecorded_by_detach, unrecorded_by_data])
@pytest.mark.parametrize("kind", ["a leaf", "computed", "a view of a leaf", "a view of a computed one"])
def test_a_change_that_autograd_does_not_record_leaves_the_record_of_a_tensor(kind: str, program: Any, backend: str) -> None:
    """AOTAutograd's copy of the new data became the tensor's record: gradients of what it was computed from were lost, or the copy raised."""

    def outcomes(run: Any) -> Any:
        leaf = torch.arange(8.0).requires_grad_()
        x = leaf * 3 if "computed" in kind else leaf
        x = x[2:6] if "view" in kind else x
        result = run(x)
        x.sum().backward()
        return result, x.detach(), leaf.grad

    compiled = framejit.compile(program, backend=backend)
    for _ in range(2):
        for one, other in zip(outcomes(compiled), outcomes(program), strict=True):
            assert torch.equal(one, other)


def written_without_record(one: torch.Tensor, other: torch.Tensor) -> Any:
    with torch.no_grad():
        other.mul_(2)
    return one * 3


def written_with_record(one: torch.Tensor, other: torch.Tensor) -> Any:
    one += 1
    other[0] = one[::2].sum()
    return other * 2


@torch.no_grad()
def written_beside_a_transform(one: torch.Tensor, other: torch.Tensor) -> Any:
    other.mul_(2)
    return torch.func.grad(lambda t: t.square().sum())(one)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [written_without_record, written_with_record, written_beside_a_transform])
def test_gradients_through_computed_views_that_overlap(program: Any, backend: str) -> None:
    """AOTAutograd's copy of what was written to one of them became the record of their base, and gradients were zeros."""

    def outcomes(run: Any) -> Any:
        leaf = torch.arange(1.0, 7.0).requires_grad_()
        base = leaf * 2
        views = base[:4], base[1:5]
        result = run(*views)
        (result.sum() + views[1].square().sum()).backward()
        return result, *views, leaf.grad

    for one, other in zip(outcomes(framejit.compile(program, backend=backend)), outcomes(program), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_views_that_overlap_leave_after_a_size_has_varied(backend: str) -> None:
    """One example input is a real tensor then, and the other a fake one; nobody saw that they share memory, and the result lay elsewhere in it."""

    def program(one: torch.Tensor, other: torch.Tensor) -> Any:
        other.mul_(2)
        return one[:2], other[:2], other.view(-1), other.t()

    def outcomes(run: Any) -> Any:
        found = []
        for place in range(4):
            base, apart = torch.arange(1.0, 7.0), torch.arange(1.0, 7.0)
            views = [(base[:4], apart[:4]), (base, base[1:5]), (base[:4], base[:4]), (base[:4], base[1:5])][place]
            results = run(*views)
            results[1].add_(1)
            found += [each.clone() for each in (*results, *views)]
        return found

    for one, other in zip(outcomes(framejit.compile(program, backend=backend)), outcomes(program), strict=True):
        assert torch.equal(one, other)


def from_a_vector(model: nn.Module, vector: torch.Tensor, x: torch.Tensor) -> Any:
    nn.utils.vector_to_parameters(vector * 2, model.parameters())
    return model(x)


def averaged(model: nn.Module, vector: torch.Tensor, x: torch.Tensor) -> Any:
    with torch.no_grad():
        for p in model.parameters():
            p.data = (p.data + vector[0]) * 0.5
            p.add_(1.0)
    return model(x)


def called_before(model: nn.Module, vector: torch.Tensor, x: torch.Tensor) -> Any:
    """The trace has already run the instruction at which autograd records the first operator."""
    before = model(x).detach()
    nn.utils.vector_to_parameters(vector * 2, model.parameters())
    return model(x) + before


def thawed(model: nn.Module, vector: torch.Tensor, x: torch.Tensor) -> Any:
    for p in model.parameters():
        p.requires_grad_(False)
    frozen = model(x * vector[1])
    for p in model.parameters():
        p.requires_grad_(True)
    return model(x) + frozen


def used_in_the_loop(model: nn.Module, vector: torch.Tensor, x: torch.Tensor) -> Any:
    total = x.sum()
    for p in model.parameters():
        p.data = p.data * vector[2]
        total = total + p.square().sum()
    return total


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(("program", "breaks"), [(from_a_vector, 1), (averaged, 1), (thawed, 0), (called_before, None), (used_in_the_loop, None)])
def test_parameters_of_which_gradients_are_asked_later_split_the_graph_once(program: Any, breaks: int | None, backend: str) -> None:
    """However many parameters a loop gives other memory, or thaws, the graph is split where autograd first records an operator on one of them."""
    torch.manual_seed(0)
    original = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))

    def outcomes(run: Any) -> Any:
        model, found = copy.deepcopy(original), []
        for number in range(3):
            vector = torch.arange(17.0).add(number).div(20).requires_grad_()
            result = run(model, vector, torch.ones(2, 2) * (number + 1))
            result.sum().backward()
            found += [result.detach(), vector.grad, *[part.clone() for p in model.parameters() for part in (p.detach(), p.grad)]]
        return found

    framejit.reset()
    for one, other in zip(outcomes(framejit.compile(program, backend=backend)), outcomes(program), strict=True):
        assert one is other is None or torch.allclose(one, other)
    assert breaks in (None, framejit.statistics()["graph_breaks"])
