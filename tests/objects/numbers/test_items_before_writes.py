"""A number out of a tensor is what the tensor held where the program took it, whatever is written to the tensor afterwards and however the number is used."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import Comparison
from torch import nn

import framejit

IN_THE_PLACE_OF_EAGER = ("eager", "aot_eager")


@torch.library.custom_op("framejit_items::bump", mutates_args=("x",))
def bump(x: torch.Tensor) -> None:
    x.add_(2)


@torch.library.custom_op("framejit_items::bump_all", mutates_args=("tensors",))
def bump_all(tensors: list[torch.Tensor]) -> None:
    for tensor in tensors:
        tensor.add_(3)


def agree(function: Callable[..., Any], *args: Any, backend: str = "eager", breaks: int | None = 0) -> None:
    """A compiled function gives what eager gives, for these arguments and for ones that are larger by a half, with so many graph breaks."""
    framejit.reset()
    compiled = framejit.compile(function, backend=backend)
    for scale in (1, 1.5):
        left = [(arg.detach() * scale).to(arg.dtype) if isinstance(arg, torch.Tensor) else copy.deepcopy(arg) for arg in args]
        right = copy.deepcopy(left)
        Comparison().same((function(*left), left), (compiled(*right), right))
    counts = framejit.statistics()
    assert counts["fallbacks"] == 0 and breaks in (None, counts["graph_breaks"]), counts["reasons"]


# The table: how a number is taken, what is written then, and what the number is used for.

READS: dict[str, Callable[[torch.Tensor], Any]] = {
    "item": lambda x: x[0].item(),
    "float": lambda x: float(x[1]),
    "tolist": lambda x: x.tolist()[3],
    "sum": lambda x: x.sum().item(),
    "of one element": lambda x: x[1:2].item(),
    "of a view": lambda x: x.view(2, 2)[0, 1].item(),
    "of an iteration": lambda x: [part.item() for part in x][2],
    "NumPy's": lambda x: float(x.numpy()[1]),
    "int": lambda x: x.long()[1].item(),
    "argmax": lambda x: x.argmax().item(),
    "computed": lambda x: x.max().item() * 2 - x.min().item(),
}


def set_items(x: torch.Tensor) -> None:
    x[0] = 50
    x[1:] = x[1:] * 2 + 1


def write_by_numpy(x: torch.Tensor) -> None:
    array = x.numpy()
    array += 2


def write_without_gradients(x: torch.Tensor) -> None:
    with torch.no_grad():
        x.sub_(4)


def write_to_parts(x: torch.Tensor) -> None:
    for i in range(4):
        x[i].add_(i + 1)


WRITES: dict[str, Callable[[torch.Tensor], object]] = {
    "none": lambda x: None,
    "in place": lambda x: x.add_(1),
    "setitem": set_items,
    "out": lambda x: torch.add(x, 5, out=x),
    "copy_": lambda x: x.copy_(x.flip(0)),
    "foreach": lambda x: torch._foreach_add_([x], 3),
    "data": lambda x: x.data.mul_(7),
    "detached": lambda x: x.detach().mul_(3),
    "NumPy": write_by_numpy,
    "view": lambda x: x.view(-1)[:].mul_(2),
    "parts": write_to_parts,
    "operator": bump,
    "operator on a list": lambda x: bump_all([x]),
    "index_add_": lambda x: x.index_add_(0, torch.arange(4), torch.ones(4, dtype=x.dtype)),
    "masked_fill_": lambda x: x.masked_fill_(x > 2, -3),
    "no_grad": write_without_gradients,
    "init": lambda x: nn.init.constant_(x, 6.0),
    "twice": lambda x: x.add_(1).view(4).mul_(2),
}

USES: list[Callable[[torch.Tensor, Any], Any]] = [
    lambda x, n: (n, x * (n + 1)),
    lambda x, n: (torch.full((2,), n / 2), x * n),
    lambda x, n: (x.add(x, alpha=n * 0.5), (n * 2 - 3) / 4),
    lambda x, n: (n > 2, n + 1 >= 3, f"{n + 1}", x * max(n * 1.0, 2.5)),
    lambda x, n: (torch.tensor([n * 1.5, float(n)]), torch.tensor(n * 0.5), [n, {"n": n + 1}]),
    lambda x, n: (x - (n * 1.0 - 0.5), round(n * 1.0, 1), -n, abs(n)),
]
CHECKED: list[Callable[[torch.Tensor, Any], Any]] = [
    lambda x, n: (x + math.exp(n / 100), x + n // 2),
    lambda x, n: (x * (int(n) * 0.5), x + n % 3),
    lambda x, n: (x + round(n), x + math.sqrt(n * 1.0 + 9)),
]
"""Uses that may fail, so that the graph checks that they don't. It may not where an input has been changed before."""


INTS = ("int", "argmax")
WITHOUT_RESULT = ("foreach", "operator", "operator on a list")
"""What gives nothing may have changed anything, so the graph checks nothing after it."""


def program(reads: list[str], write: str, uses: list[Callable[..., Any]], first: int, is_input: bool) -> Callable[[torch.Tensor], Any]:
    """Takes a number by each way of `reads`, writes, and uses each number in one of the ways of `uses`, beginning with the way `first`."""

    def function(x: torch.Tensor) -> Any:
        x = x if is_input else x * 1
        numbers = [READS[read](x) for read in reads]
        WRITES[write](x)
        return [uses[(first + place) % len(uses)](x, number) for place, number in enumerate(numbers)], x, READS[reads[0]](x)

    return function


@pytest.mark.parametrize("write", WRITES)
def test_numbers_out_of_inputs(write: str) -> None:
    function = program(list(READS), write, USES, list(WRITES).index(write), is_input=True)
    agree(function, torch.tensor([1.0, 3.0, 2.0, 4.0], dtype=torch.float64))


@pytest.mark.parametrize("write", WRITES)
def test_numbers_out_of_intermediates(write: str) -> None:
    uses = USES if write in WITHOUT_RESULT else [*CHECKED, *USES]
    function = program([read for read in READS if read not in INTS], write, uses, list(WRITES).index(write), is_input=False)
    agree(function, torch.tensor([1.0, 3.0, 2.0, 4.0], dtype=torch.float64))


@pytest.mark.parametrize("read", ["item", *INTS])
def test_each_use_of_a_number(read: str) -> None:
    for is_input in (False, True):
        uses = USES if is_input or read in INTS else [*USES, *CHECKED]
        agree(program([read] * len(uses), "in place", uses, 0, is_input), torch.tensor([1.0, 3.0, 2.0, 4.0]))


# Programs.


def test_numbers_go_across_breaks() -> None:
    def broken(x: torch.Tensor) -> Any:
        first = x[0].item()
        x.add_(1)
        second = x[0].item() + 1
        print(end="")
        x.mul_(2)
        return x * (first + 1), x * (second + 1), first, second

    agree(broken, torch.ones(2), breaks=1)


def test_items_taken_in_turn() -> None:
    def exchanged(x: torch.Tensor) -> Any:
        a, b = x[0].item(), x[1].item()
        x[0] = b
        x[1] = a
        total = 0.0
        for i in range(4):
            total += x[i].item()
            x.sub_(total)
        return x * total, a, b, total, x / (total + 0.5)

    agree(exchanged, torch.tensor([1.0, 3.0, 2.0, 4.0], dtype=torch.float64), breaks=None)


@pytest.mark.skipif(torch.__version__ >= "2.14", reason="torch's own cond, in eager, takes no numbers out of tensors any more")
def test_numbers_are_used_in_a_branch_of_the_graph() -> None:
    def chosen(x: torch.Tensor) -> Any:
        n = x[0].item()
        x.add_(1)
        return torch.cond(x.sum() > 5, lambda x: x * (n + 1), lambda x: x * (n - 1), (x,)), n

    agree(chosen, torch.ones(2))


def test_tensors_made_of_numbers_are_in_memory_of_their_own() -> None:
    def made(x: torch.Tensor) -> Any:
        n, m = x[0].item(), x[1:2].item()
        found = torch.tensor(n, dtype=torch.float64), torch.tensor(m, dtype=torch.float64), torch.as_tensor(n * 1.0, dtype=torch.float64)
        x.add_(1)
        found[0].add_(4)
        return found, x

    agree(made, torch.tensor([1.0, 3.0], dtype=torch.float64))


class Counting(nn.Module):
    """It counts its steps and lets a momentum decay in buffers, and has a BatchNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("step", torch.tensor(0.0))
        self.register_buffer("momentum", torch.tensor(0.5))
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> Any:
        step, momentum, mean = self.step.item(), self.momentum.item(), self.norm.running_mean[0].item()
        self.step += 1
        self.momentum.mul_(0.5)
        y = self.norm(x)
        return y.detach() * (step + 1) + momentum / 2, x * (mean + 1) * (self.momentum.item() + 1), step, self.step.item(), momentum, mean


def test_numbers_out_of_buffers() -> None:
    eager, module = Counting(), Counting()
    compiled = framejit.compile(module, backend="eager", fullgraph=True)
    for number in range(4):
        x = torch.arange(6.0).view(2, 3) * (number + 1)
        expected, found = eager(x), compiled(x)
        assert found[2:5] == expected[2:5]
        torch.testing.assert_close(found, expected)
    assert all(torch.equal(found, expected) for found, expected in zip(module.buffers(), eager.buffers(), strict=True))


def test_numbers_before_an_optimizers_step() -> None:
    def stepped(w: torch.Tensor, optimizer: torch.optim.Optimizer) -> Any:
        first, total = w.detach()[0].item(), w.detach().sum().item()
        optimizer.step()
        return w.detach() * (first + 1), w.detach() + total / 2, first, total

    found = []
    for wrap in (lambda function: function, framejit.compile(backend="eager", fullgraph=True)):
        w = nn.Parameter(torch.tensor([1.0, 2.0]))
        optimizer, run = torch.optim.SGD([w], lr=0.5), wrap(stepped)
        w.grad = torch.ones(2)
        found.append([run(w, optimizer) for _ in range(3)])
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return w * x.sum()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return gradients[0], None


def backward_needs_numbers(w: torch.Tensor, x: torch.Tensor) -> Any:
    n = x[1].item()
    y = (w * (n + 1)).exp()
    x.add_(1)
    m = x[1].item()
    x.mul_(2)
    return (y * (m + n * 0.25) * (n + 2)).sum(), x * (n + 1), n, m


def writes_after_a_checkpoint(w: torch.Tensor, x: torch.Tensor) -> Any:
    n = x[0].item()
    y = torch.utils.checkpoint.checkpoint(lambda w, x: (w * x).sin(), w, x.clone(), use_reentrant=False)
    x.add_(1)
    return (y * (n + 1)).sum(), x * (n + 1), n


def writes_in_a_function(w: torch.Tensor, x: torch.Tensor) -> Any:
    n = x[0].item()
    y = Scaled.apply(w, x)
    return (y * (n + 1)).sum(), x * (n + 1), n


def changes_statistics(w: torch.Tensor, x: torch.Tensor) -> Any:
    mean = torch.zeros(3) + x
    n = mean[1].item()
    y = F.batch_norm(torch.stack([w, w * x, w + x]), mean, torch.ones(3), training=True)
    return (y * (n + 1)).sum(), mean * (n + 1), n, mean[1].item()


GRADIENTS = [backward_needs_numbers, writes_after_a_checkpoint, writes_in_a_function, changes_statistics]


def run_backward(function: Callable[..., Any], scale: float) -> Any:
    w, x = torch.tensor([0.1, 0.2, 0.3], requires_grad=True), torch.tensor([0.5, 0.25, 1.0]) * scale
    loss, *others = function(w, x)
    loss.backward()
    return loss.detach(), others, w.grad, x


@pytest.mark.parametrize("function", GRADIENTS)
def test_gradients_use_the_number_that_was_taken(function: Callable[..., Any]) -> None:
    framejit.reset()
    compiled = framejit.compile(function, backend="eager", fullgraph=True)
    for scale in (1, 3):
        torch.testing.assert_close(run_backward(compiled, scale), run_backward(function, scale))


def test_with_inductor(in_the_place_of_eager: str) -> None:
    if in_the_place_of_eager != "eager":
        pytest.skip("it names its backend")

    def used(w: torch.Tensor, x: torch.Tensor) -> Any:
        loss, *others = backward_needs_numbers(w, x)
        y = x * 2
        a = y[0].item()
        y.mul_(3)
        return loss, *others, y * (a + 1), a, torch.full((2,), a / 2), x + y[0].item() / 3

    compiled = framejit.compile(used, backend="inductor", fullgraph=True)
    for scale in (1, 3):
        torch.testing.assert_close(run_backward(compiled, scale), run_backward(used, scale))
