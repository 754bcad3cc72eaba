"""Data that a trace knows: to branch on what is computed from constants, or from small tensors that objects hold, splits no graph; results are eager's."""

from __future__ import annotations

import copy
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from agreement import Comparison
from torch import nn

import framejit

BACKENDS = ("eager", "aot_eager")


def agree(function, *calls, backend="eager"):
    """Compare a compiled function with eager over calls, each on copies of its arguments; the statistics."""
    framejit.reset()
    with framejit.config.replace(check="compile,guards"):
        compiled = framejit.compile(function, backend=backend)
        for args in calls:
            left, right = copy.deepcopy(args), copy.deepcopy(args)
            torch.manual_seed(0)
            expected = function(*left)
            torch.manual_seed(0)
            Comparison().same((expected, left), (compiled(*right), right), str(args))
    return framejit.statistics()


def is_one_graph(statistics):
    return statistics["graphs"] == 1 and statistics["graph_breaks"] == statistics["fallbacks"] == 0


X = torch.linspace(-1, 1, 5)


def steps(x):
    times = torch.arange(0, 100, 20).flip(0) + 1
    for time in times:
        if time > 40:
            x = x * time
        place = (times == time).nonzero()
        position = 1 if len(place) > 1 else 0
        for _ in range(place[position].item()):
            x = x + 1
        before = time - 20
        x = x + (times[before // 20] if before >= 0 else 3.0)
    return x


def arrays(x):
    times = np.linspace(0, 9, 4).round()[::-1].copy().astype(np.int64)
    times += 1
    times[1] = 2
    sigmas = np.concatenate([np.interp(times, np.arange(11), np.arange(11.0)), [torch.tensor(0.5)]])
    for time, sigma in zip(times, torch.from_numpy(sigmas)):
        if time > 3 and sigma > 3:
            x = x + torch.linspace(0, 1, 11)[time]
    return x


def changed(x):
    sizes = torch.zeros(4)
    view = sizes[1:3]
    first = sizes.sum()
    view += 2
    sizes[0] = x.numel()
    sizes.mul_(2).clamp_(max=9)
    return x + (1 if sizes[0] > 8 else 2) + (10 if view[1] == 4 else 20) + (100 if first == 0 else 200)


def changed_by_any_method(x):
    sizes = torch.zeros(4)
    sizes.exp_().index_add_(0, torch.tensor([1]), torch.tensor([3.0])).cumsum_(0)
    return x + (1 if sizes[1] > 4 else 2) + (10 if sizes[3] == 7 else 20)


def written_and_read_twice(x):
    sizes = torch.empty((2, 2), dtype=torch.int64)
    for level, (height, width) in enumerate([(3, 4), (1, 2)]):
        sizes[level, 0] = height
        sizes[level, 1] = width
    return x * 2 if (sizes[:, 0] * sizes[:, 1]).sum() == 14 else x - 1


def blocks(x):
    """The places of patches, as models that read images of several sizes have them."""
    found = []
    for (height, width), merged in zip(torch.tensor([[4, 4], [2, 6]]).tolist(), torch.tensor([2]).expand(2).tolist()):
        rows = torch.arange(height)[:, None].expand(height, width)
        found.append(rows.reshape(height // merged, merged, width // merged, merged).transpose(1, 2).flatten())
    return x + torch.cat(found).sum() - 7 % torch.tensor([3, 4]).tolist()[1]


def next_step(x, indices):
    times, scales = torch.tensor([1008, 512]), torch.linspace(0, 1, 1024)
    for time in times:
        index = indices(times == time)
        if index == len(times) - 1:
            return x
        x = scales[times[index + 1]] * x
    return x


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("indices", [lambda mask: torch.where(mask)[0], lambda mask: mask.nonzero()[:, 0], lambda mask: mask.nonzero().squeeze(1)])
def test_a_size_that_depends_on_known_data_is_one(indices, backend):
    """It is broadcast, as schedulers of diffusion models have it."""
    assert is_one_graph(agree(lambda x: next_step(x, indices), (torch.ones(2, 3),), (torch.zeros(2, 3),), backend=backend))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [steps, arrays, changed, changed_by_any_method, written_and_read_twice, blocks], ids=lambda program: program.__name__)
def test_what_is_computed_from_constants_is_known(program, backend):
    assert is_one_graph(agree(program, (X,), (X + 1,), backend=backend))


def unknown_written(x):
    sizes = torch.zeros(4)
    sizes[1] = x[0]
    found = x + (1 if sizes[1] > 0 else 2)
    return found, x + found  # too long for compilers to copy it to both ways


def unknown_written_to_view(x):
    sizes = torch.zeros(4)
    view = sizes.view(2, 2)
    view.add_(x[0])
    found = x + (1 if sizes[1] > 0 else 2)
    return found, x + found  # too long for compilers to copy it to both ways


def drawn(x):
    return x + (1 if torch.rand(3).sum() > 1.5 else 2) + torch.rand(1)


def drawn_in_place(x):
    sizes = torch.zeros(3)
    sizes.uniform_()
    return x + (1 if sizes.sum() > 1.5 else 2) + torch.rand(1)


@pytest.mark.parametrize("program", [unknown_written, unknown_written_to_view, drawn, drawn_in_place], ids=lambda program: program.__name__)
def test_what_depends_on_arguments_or_is_drawn_is_not(program):
    assert agree(program, (X,), (-X,), (X,))["graph_breaks"]


class Flagged(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("flag", torch.tensor(True))
        self.register_buffer("sizes", torch.tensor([1, 2, 3]))
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        if self.flag:
            x = x + 1
        for size in self.sizes.tolist():
            x = torch.nn.functional.pad(x, (0, size))
        return x * self.scale


def test_buffers_are_known_and_guarded_by_their_data():
    framejit.reset()
    module = Flagged()
    compiled = framejit.compile(module, backend="eager")
    with framejit.config.replace(check="compile,guards"):
        assert torch.equal(compiled(X), module(X)) and torch.equal(compiled(X), module(X))
        assert is_one_graph(framejit.statistics())
        for change in (lambda: module.flag.fill_(False), lambda: module.sizes.numpy().fill(2), lambda: setattr(module.sizes, "data", torch.tensor([5, 0, 1]))):
            change()
            assert torch.equal(compiled(X), module(X)) and torch.equal(compiled(X), module(X))


def test_data_that_changes_is_rested_on_once():
    framejit.reset()
    holder = SimpleNamespace(step=torch.tensor(0))

    def step(x):
        return x + (1 if holder.step % 3 == 0 else 2)

    compiled = framejit.compile(step, backend="eager")
    for _ in range(12):
        assert torch.equal(compiled(X), step(X))
        holder.step = holder.step + 1
    statistics = framejit.statistics()
    assert statistics["recompiles"] <= 3 and statistics["fallbacks"] == 0


def test_data_that_the_call_itself_changes_splits_the_graph():
    framejit.reset()
    holder = SimpleNamespace(step=torch.tensor(0), part=None)
    holder.part = holder.step.view(1)

    def count(x):
        first = 1 if holder.step < 2 else 2
        holder.part += 1
        found = x + first + (10 if holder.step < 2 else 20)
        return found, x + found

    eager, ours = copy.deepcopy(holder), holder
    compiled = framejit.compile(count, backend="eager")
    found = [compiled(X) for _ in range(4)]
    holder = eager
    expected = [count(X) for _ in range(4)]
    Comparison().same((expected, eager), (found, ours), "")
    assert framejit.statistics()["graph_breaks"]


def test_parameters_and_large_tensors_are_not_looked_at():
    module = Flagged()
    module.large = torch.zeros(5000)

    def branches(x):
        found = x + (1 if module.scale > 1 else 2) + (10 if module.large.sum() == 0 else 20)
        return found, x + found

    assert agree(branches, (X,))["graph_breaks"] == 2


def test_universal_functions_on_tensors_give_tensors_and_numpys_warning():
    def program(x):
        return np.log(x), np.greater(x, 0.5), np.add(x, np.ones(5)), np.stack([x, x])

    x = X.abs() + 0.25
    told = []
    for run in (framejit.compile(program, backend="eager"), program):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            run(x)
        told.append([(str(warning.message), warning.lineno) for warning in found])
    assert told[0] == told[1]


def test_an_array_that_shares_memory_with_a_tensor_is_changed():
    framejit.reset()
    ours, eager = (SimpleNamespace(array=np.zeros(4)) for _ in range(2))
    for holder in (ours, eager):
        holder.tensor = torch.from_numpy(holder.array)

    def program(holder, x):
        holder.array += 1
        return x + (1 if holder.tensor[0] > 0 else 2)

    compiled = framejit.compile(program, backend="eager")
    assert all(torch.equal(compiled(ours, X), program(eager, X)) for _ in range(3))


@pytest.mark.parametrize("data", [torch.tensor([1 + 2j, 3 - 4j]).conj().imag, torch._neg_view(torch.tensor([2.0, -4.0]))])
def test_data_that_lies_negated_in_memory(data):
    holder = SimpleNamespace(negated=data)

    def program(x):
        for value in holder.negated:
            x = x + 1 if value > 0 else x * 2
        return x

    agree(program, (X,), (X + 1,))


def test_one_element_whose_tensor_has_a_stride() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("sizes", torch.arange(8)[1::4][:1])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if (self.sizes * 2).sum() > 1 else x - 1

    assert torch.equal(framejit.compile(Model(), backend="eager", fullgraph=True)(torch.ones(2)), torch.full((2,), 2.0))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("asked", [bool, int, torch.Tensor.item, float], ids=lambda asked: asked.__name__)
def test_known_data_of_several_elements_raise_what_eager_raises(asked, backend):
    """Errors of operations that the trace computes with known data are raised in the program, where a handler catches them."""

    def program(x):
        known = torch.arange(3) - 1
        try:
            return x + asked(known)
        except (RuntimeError, TypeError, ValueError) as error:
            return x * 2, type(error), str(error)

    agree(program, (X,), (X + 1,), backend=backend)


def test_a_branch_on_known_data_of_several_elements_raises():
    layer = nn.Linear(2, 2)
    layer.register_buffer("flags", torch.zeros(2))

    def program(x):
        if layer.flags == 1:
            x = x * 2
        return x + 1

    with pytest.raises(RuntimeError, match="ambiguous") as raised:
        framejit.compile(program, backend="eager")(X)
    assert raised.traceback[-1].name == "program"
