"""Counters and flags in tensors from outside, by which the program goes one way or the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import agree, agree_over_calls
from torch import nn
from torch.optim import swa_utils

import framejit


class Moving(nn.Module):
    """A codebook's moving average: a flag says whether it has begun, a counter how often it is to be looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("begun", torch.tensor(False))
        self.register_buffer("step", torch.zeros(1, dtype=torch.int32))
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        step = self.step.item()
        self.step += 1
        if not self.begun:
            self.mean.copy_(x)
            self.begun.fill_(True)
            return x
        if (step + 1) % 3 == 0:
            self.mean.mul_(0.5).add_(x, alpha=0.5)
        return x - self.mean


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_counter_and_a_flag(backend: str) -> None:
    eager, module = Moving(), Moving()
    compiled = framejit.compile(module, backend=backend, fullgraph=True)
    before = framejit.statistics()
    for number in range(8):
        x = torch.full((3,), float(number))
        assert torch.equal(compiled(x), eager(x))
    assert all(torch.equal(found, expected) for found, expected in zip(module.buffers(), eager.buffers(), strict=True))
    after = framejit.statistics()
    assert (after["graphs"] - before["graphs"], after["graph_breaks"] - before["graph_breaks"]) == (3, 0)


class Extremes(nn.Module):
    """A quantizer's running extremes: models that are trained for quantization begin with those of the first batch, and go on with a moving average."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("least", torch.full((1,), -1e-5))
        self.register_buffer("most", torch.full((1,), 1e-5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        least, most = x.detach().min(), x.detach().max()
        if self.least.min() > -1.1e-5 and self.most.max() < 1.1e-5:
            self.least, self.most = self.least + least, self.most + most
        else:
            self.least, self.most = self.least * 0.9 + least * 0.1, self.most * 0.9 + most * 0.1
        return x / (self.most - self.least)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_running_extremes(backend: str) -> None:
    eager, module = nn.Sequential(Extremes(), Extremes()), nn.Sequential(Extremes(), Extremes())
    framejit.reset()
    compiled = framejit.compile(module, backend=backend, fullgraph=True)
    for number in range(5):
        x = torch.linspace(-2, number + 1, 4, requires_grad=True)
        found, expected = compiled(x), eager(x)
        assert torch.equal(found, expected)
        assert torch.equal(*(torch.autograd.grad(y.square().sum(), x)[0] for y in (found, expected)))
    assert all(torch.equal(found, expected) for found, expected in zip(module.buffers(), eager.buffers(), strict=True))
    statistics = framejit.statistics()
    assert (statistics["graphs"], statistics["graph_breaks"]) == (2, 0)


FLOATS = (0.0, -0.0, 0.1, 0.3, 2.0, -1e-30, 1e30, float("inf"), float("-inf"), float("nan"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_floats_are_compared_as_their_tensors_are(dtype: torch.dtype) -> None:
    def of_tensors(t: torch.Tensor) -> list[bool]:
        conditions = (lambda: t, lambda: t == 0.1, lambda: 0.1 < t, lambda: t[0] >= 2, lambda: t.sum() != 0.3, lambda: t.mean() < 1e300, lambda: t <= -1e-300)
        return [True if condition() else False for condition in conditions]

    def of_numbers(t: torch.Tensor) -> list[bool]:
        n = t.item()
        conditions = (lambda: n, lambda: n == 0.1, lambda: 0.1 < n, lambda: 2 * n + 1 >= 2, lambda: n / 3 < 0.2, lambda: n - 1 <= 1e300)
        return [True if condition() else False for condition in conditions]

    for function in (of_tensors, of_numbers):
        compiled = framejit.compile(function, backend="eager")
        for value in FLOATS:
            assert compiled(torch.tensor([value], dtype=dtype)) == function(torch.tensor([value], dtype=dtype)), (function.__name__, value)


def test_floats_for_which_the_program_goes_the_same_way_share_an_entry() -> None:
    def function(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return x + 1 if t > 0.5 and t.item() * 2 < 8 else x - 1

    framejit.reset()
    compiled = framejit.compile(function, backend="eager", fullgraph=True)
    for value in (0.7, 0.9, 3.5, -1.0, 0.5, 0.2, 4.5, 9.0, 0.6):
        assert torch.equal(compiled(torch.ones(2), torch.tensor(value)), function(torch.ones(2), torch.tensor(value))), value
    assert framejit.statistics()["graphs"] == 3


def test_a_function_of_the_programs_that_is_called_as_a_comparison_is() -> None:
    @framejit.allow_in_graph
    def gt(n: torch.Tensor, limit: int) -> torch.Tensor:
        return n < limit

    def function(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x + 1 if gt(n, 3) else x - 1

    compiled = framejit.compile(function, backend="eager")
    for value in (1, 5, 1):
        assert torch.equal(compiled(torch.ones(2), torch.tensor(value)), function(torch.ones(2), torch.tensor(value)))


def test_averaged_models_are_one_graph() -> None:
    def program(compile: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(0)
        model = nn.Linear(2, 2)
        mean = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            mean.update_parameters(model)
            return loss.detach()

        step = compile(step)
        return [*[step(torch.ones(1, 2) * number) for number in range(4)], *[value.detach() for value in (*mean.parameters(), *mean.buffers())]]

    framejit.reset()
    agree_over_calls(program)
    assert framejit.statistics()["graph_breaks"] == 0


def test_what_the_graph_has_changed_is_no_data_of_the_call() -> None:
    def changed(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        n += 1
        return x + 1 if n > 1 else x - 1

    def by_a_view(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        n.view(1).fill_(5)
        return x + 1 if n == 5 else x - 1

    def by_data(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        n.data.add_(1)
        return x + 1 if n.item() == 2 else x - 1

    def replaced(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        n.data = torch.zeros((), dtype=torch.int64)
        return x + 1 if n == 0 else x - 1

    def extreme(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        most = n.max()
        n.add_(1)
        return x + 1 if n.max() > 1 and most == 1 else x - 1

    for function in (changed, by_a_view, by_data, replaced, extreme):
        agree(function, torch.ones(2), torch.tensor(1), fullgraph=False)


def test_memory_that_another_argument_has_too() -> None:
    def function(x: torch.Tensor, counts: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        counts.add_(1)
        return x + 1 if n > 1 else x - 1

    compiled = framejit.compile(function, backend="eager")
    for share in (False, True, False, True):
        counts, x = torch.ones(2, dtype=torch.int64), torch.ones(2)
        n = counts[0] if share else torch.tensor(1)
        assert torch.equal(compiled(x, counts, n), x + 1 if share else x - 1)


def test_ints_beside_ints() -> None:
    def function(x: torch.Tensor, n: torch.Tensor, limit: int) -> torch.Tensor:
        if n.item() >= limit:
            return x * 2
        return x * 3 if 2 * n.item() == 4 else x * 4

    framejit.reset()
    compiled = framejit.compile(function, backend="eager", fullgraph=True)
    for n, limit in ((0, 5), (1, 5), (2, 5), (3, 5), (7, 5), (-9, 5), (6, 5), (5, 5), (2**62, 5), (2**31 + 2, 5)):
        assert torch.equal(compiled(torch.ones(2), torch.tensor(n), limit), function(torch.ones(2), torch.tensor(n), limit)), n
    assert framejit.statistics()["graphs"] <= 4


def test_what_guards_dont_read() -> None:
    def of_two(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x + 1 if (n > 0).all() else x - 1

    def of_float(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x + 1 if n.float() > 0.5 else x - 1

    for function in (of_two, of_float):
        for value in (torch.tensor([0, 1]), torch.tensor([1, 1])):
            agree(function, torch.ones(2), value if function is of_two else value[0], fullgraph=False)


def test_exported_programs_rest_on_no_data() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", torch.tensor(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if self.n > 2 else x - 1

    with pytest.raises(framejit.Unsupported, match="depends on the data"):
        framejit.export(Counting(), (torch.ones(2),))


@pytest.mark.parametrize("tensor", [torch.tensor([1 + 2j]).conj().imag, torch._neg_view(torch.tensor(3.0)), torch._neg_view(torch.tensor(2))])
def test_a_number_that_lies_negated_in_memory(tensor: torch.Tensor) -> None:
    def program(t: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        number = t.item()
        return x + number if number < 0 else x * 2

    compiled = framejit.compile(program, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(tensor, torch.ones(2)), program(tensor, torch.ones(2)))


def subtracts(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.sub_(5)
    return y


def subtracts_in_a_sum(x: torch.Tensor) -> torch.Tensor:
    y = x.sum()
    y.sub_(5)
    return y


def subtracts_by_data(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.data.sub_(5)
    return y


def subtracts_in_a_view(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.view(1)[0] = x[0] - 5
    return y


def subtracts_into(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    torch.sub(x, 5, out=y)
    return y


def subtracts_in_a_list(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    torch._foreach_sub_([y], 5)
    return y


def subtracts_from_the_argument(x: torch.Tensor) -> torch.Tensor:
    torch._foreach_sub_([x], 5)
    return x


def turns_a_flag(x: torch.Tensor) -> torch.Tensor:
    is_positive = x > 0
    is_positive.logical_not_()
    return is_positive


def updates_statistics(x: torch.Tensor) -> torch.Tensor:
    mean = x.clone()
    nn.functional.batch_norm(torch.stack([x, x - 90]), mean, torch.ones(1), training=True)
    return mean


def in_a_checkpoint(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    torch.utils.checkpoint.checkpoint(lambda t: (y.sub_(5), t * 2)[1], x, use_reentrant=False)
    return y


def for_other_data(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.resize_(1).fill_(-5)
    return y


CHANGES = [
    subtracts, subtracts_in_a_sum, subtracts_by_data, subtracts_in_a_view, subtracts_into, subtracts_in_a_list, subtracts_from_the_argument, turns_a_flag,
    updates_statistics, in_a_checkpoint, for_other_data,
]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_computed_of_an_argument_is_asked_for_after_a_change(change: Callable[[torch.Tensor], torch.Tensor], backend: str) -> None:
    def by_truth(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if change(x) else x * 3

    def by_comparison(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if change(x) > 0 else x * 3

    def by_number(x: torch.Tensor) -> torch.Tensor:
        n = change(x).item()
        return x * 2 if n > 0 else x * 3

    for function in (by_truth, by_comparison, by_number):
        compiled = framejit.compile(function, backend=backend)
        for value in (1.0, 8.0, 5.0, 3.0):
            left, right = torch.tensor([value]), torch.tensor([value])
            assert torch.equal(compiled(right), function(left)) and torch.equal(left, right)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_is_asked_for_before_a_change_is_known(backend: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        n, is_positive = x.clone().item(), bool(x > 0)
        torch._foreach_sub_([x], 5)
        return x * 2 if n > 0 and is_positive else x * 3

    framejit.reset()
    compiled = framejit.compile(function, backend=backend, fullgraph=True)
    for value in (1.0, 8.0, -5.0, 3.0):
        assert torch.equal(compiled(torch.tensor([value])), function(torch.tensor([value])))
    assert framejit.statistics()["graphs"] == 2


class Queue(torch.nn.Module):
    def __init__(self, size: int = 12) -> None:
        super().__init__()
        self.register_buffer("items", torch.zeros(4, size))
        self.register_buffer("pointer", torch.zeros(1, dtype=torch.long))
        self.size = size

    @torch.no_grad()
    def forward(self, keys: torch.Tensor) -> torch.Tensor:
        start = int(self.pointer)
        assert self.size % len(keys) == 0
        self.items[:, start : start + len(keys)] = keys.T
        self.pointer[0] = (start + len(keys)) % self.size
        return self.items.sum()


class Counted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.tensor(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        step = self.steps.item()
        self.steps.add_(1)
        return x * step + sum(range(step))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_pointer_that_the_call_moves(backend: str) -> None:
    torch.manual_seed(0)
    framejit.reset()
    mine, other = Queue(), Queue()
    compiled = framejit.compile(mine, backend=backend, fullgraph=True)
    for _ in range(5):
        keys = torch.randn(4, 4)
        assert torch.equal(compiled(keys), other(keys))
        assert torch.equal(mine.items, other.items) and torch.equal(mine.pointer, other.pointer)
    statistics = framejit.statistics()
    assert statistics["graphs"] <= 2 and statistics["graph_breaks"] == statistics["fallbacks"] == 0


def test_a_counter_whose_value_is_needed_is_read_natively() -> None:
    mine, other = Counted(), Counted()
    compiled = framejit.compile(mine, backend="eager")
    for _ in range(5):
        assert torch.equal(compiled(torch.ones(2)), other(torch.ones(2))) and torch.equal(mine.steps, other.steps)
    assert framejit.statistics()["graph_breaks"]


def maximum_by_keyword(x: torch.Tensor) -> torch.Tensor:
    return x - 1 if torch.max(input=x) > 5 else x + 1


def any_of_a_comparison_by_keywords(x: torch.Tensor) -> torch.Tensor:
    return x - 1 if torch.any(input=torch.gt(input=x, other=5)) else x + 1


def sum_of_a_tensor_without_arguments(x: torch.Tensor) -> torch.Tensor:
    return x - 1 if torch.zeros(size=(3,), dtype=torch.int64).sum() > 5 else x + 1


@pytest.mark.parametrize("function", [maximum_by_keyword, any_of_a_comparison_by_keywords, sum_of_a_tensor_without_arguments])
def test_operators_without_positional_arguments(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    for numbers in ([1, 2], [1, 7]):
        agree(function, torch.tensor(numbers), fullgraph=False)


class Labelled(torch.Tensor):
    """A tensor of a class of the program's."""


def scaled_by_its_item(x: torch.Tensor) -> torch.Tensor:
    scale = x.item()
    return x / (1.0 if scale == 0.0 else scale)


def scaled_by_an_element(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x[0, 0].item() > 1 else x


@pytest.mark.parametrize(("function", "dtype"), [(scaled_by_its_item, torch.float32), (scaled_by_an_element, torch.int64)])
def test_data_of_tensors_of_the_programs_classes(function: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype) -> None:
    compiled = framejit.compile(function, backend="eager", fullgraph=True)
    for number in (3, 4, 0, 1):
        x = torch.tensor([[number]], dtype=dtype).as_subclass(Labelled)
        found = compiled(x)
        assert type(found) is Labelled
        assert torch.equal(found, function(x)), number
