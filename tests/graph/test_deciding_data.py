"""Arguments whose data decides: small CPU tensors of ints and flags, out of which the program reads numbers to loop, to branch, and for sizes."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from agreement import Comparison
from torch import nn

import framejit

T = torch.tensor
X = torch.arange(24.0)
BACKENDS = ("eager", "aot_eager")


def run(function: Callable[..., Any], calls: Iterable[tuple[Any, ...]], **options: Any) -> list[tuple[int, int]]:
    """Compare a compiled function with eager over calls, each on copies of its arguments. Returns the number of graphs and graph breaks after each call."""
    framejit.reset()
    found = []
    with framejit.config.replace(check="compile,guards,shapes"):
        compiled = framejit.compile(function, **{"backend": "eager", **options})
        for args in calls:
            left, right = copy.deepcopy(args), copy.deepcopy(args)
            Comparison().same((function(*left), left), (compiled(*right), right), str(args))
            statistics = framejit.statistics()
            assert statistics["fallbacks"] == 0
            found.append((statistics["graphs"], statistics["graph_breaks"]))
    return found


def rows(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    for t, h, w in grid.tolist():
        if h > w:
            x = x * 2
        for _ in range(t):
            x = x + h * w
    return x


def rows_of_tensors(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    for t, h, w in grid:
        rows = torch.arange(h).unsqueeze(1).expand(-1, w).reshape(h // 2, 2, w // 2, 2)
        x = x + rows.repeat(t, 1, 1, 1).sum()
    return x


def sizes(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    _, h, w = grid[0].tolist()
    return x[:w].expand(h, w).reshape(h * w).view(w, h).sum(0)


def first_index(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    for _ in range(int(grid[0, 0])):
        x = x + 1
    return x + grid.sum()


def parts(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    return torch.cat([part.softmax(0) for part in x.split(lengths.tolist())])


def padded(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    found = x.new_zeros(len(lengths), lengths.max().item())
    for row, length in enumerate(lengths.tolist()):
        found[row, :length] = x[:length]
    return found


def masked(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    longest = int(lengths.max())
    return (torch.arange(longest)[None, :] < lengths[:, None]).float() @ x[:longest]


def cut(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    x = x[: lengths[0].item()]
    if x.shape[0] > 7:
        x = x[:4]
    return x.view(-1, 2).sum(0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [parts, padded, masked, cut], ids=lambda program: program.__name__)
def test_lengths_of_sequences(program: Any, backend: str) -> None:
    counts = run(program, [(X, T(lengths)) for lengths in ([4, 20], [4, 20], [10, 14], [6, 18], [8, 16], [14, 10])], backend=backend)
    assert counts[1] == (1, 0)
    assert counts[-1][0] <= 4 and counts[-1][1] == 0, counts


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [rows, rows_of_tensors, sizes, first_index], ids=lambda program: program.__name__)
def test_numbers_are_constants_until_they_vary_and_symbols_from_then_on(program: Any, backend: str) -> None:
    grids = [[1, 2, 4], [1, 2, 4], [1, 2, 6], [1, 4, 6], [1, 2, 10], [1, 2, 8]]
    counts = run(program, [(X, T([grid])) for grid in grids], backend=backend)
    assert counts[1] == (1, 0)
    assert counts[-1][0] <= 3 and counts[-1][1] == 0, counts


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_without_symbolic_form_split_the_graph_once_they_vary(backend: str) -> None:
    def program(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return y + ["a", "bc", "def"][n[1].item()].__len__()

    counts = run(program, [(X, T([7, n])) for n in (0, 0, 1, 2, 0, 1)], backend=backend)
    assert counts[:2] == [(1, 0), (1, 0)] and {breaks for _, breaks in counts[2:]} == {1}


def totals(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    if n.max() > 3:
        x = x + 1
    if int(n.sum()) < 9:
        x = x * 2
    if (n == 0).any():
        x = x * 3
    if n.bool().all() and torch.min(n).item() != 2:
        x = x - 1
    return x + 1 if (n >= 2).sum().item() == 2 else x


def test_totals_are_guarded_and_not_the_data() -> None:
    counts = run(totals, [(X, T(n)) for n in ([1, 2, 3], [1, 3, 2], [1, 3, 3], [1, 2, 2], [3, 2, 1])])
    assert counts[-1] == (1, 0)
    dice = random.Random(0)
    values = [[dice.randrange(5) for _ in range(3)] for _ in range(40)]
    run(totals, [(X, T(n, dtype=torch.int32)) for n in values])
    run(totals, [(X, T(n)) for n in values], dynamic=True)


def flags(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    if mask.all():
        return x
    x = x * mask.sum().item() if mask.any() else x - 1
    return x + 1 if mask[0] else x + 2


def test_flags() -> None:
    masks = [[True, True], [False, False], [True, False], [False, True]]
    counts = run(flags, [(X, T(mask)) for mask in masks * 3])
    assert counts[-1] == (3, 0)


def test_what_is_computed_in_other_ways_is_guarded_by_all_data_until_it_varies() -> None:
    def program(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        y = x * 2 if (n % 2 == 0).any() else x * 3
        return y + 1 if (n == n.sort().values).all() else y

    counts = run(program, [(X, T(n)) for n in ([1, 3], [1, 3], [3, 1], [2, 3], [4, 1])])
    assert counts[1] == (1, 0) and counts[-1] == counts[-2] and counts[-1][1] <= 3


def test_long_lists() -> None:
    def program(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x * sum(length for length in n.tolist() if length > 50)

    counts = run(program, [(X, torch.arange(100)), (X, torch.arange(100)), (X, torch.arange(100).flip(0)), (X, torch.arange(1, 101))])
    assert counts[1] == (1, 0) and counts[-1][1] == 1


def test_values_that_only_flow_into_the_graph_are_not_guarded() -> None:
    def program(x: torch.Tensor, n: torch.Tensor) -> Any:
        total = n.sum().item()
        return x[: n[0].item()] * total, total + 1, f"{n[1].item()}", torch.zeros(n.max().item())

    counts = run(program, [(X, T([n, 3 * n])) for n in range(8)])
    assert counts[-1] == (1, 0)


# What must not be read.


def adds(n: torch.Tensor) -> None:
    n.add_(1)


def writes_by_view(n: torch.Tensor) -> None:
    n[1:].fill_(3)


def writes_by_data(n: torch.Tensor) -> None:
    n.data[0] = 2


def writes_a_list(n: torch.Tensor) -> None:
    torch._foreach_add_([n], 2)


def writes_to_an_alias(n: torch.Tensor) -> None:
    n.view(-1).unsqueeze(0).mul_(2)


CHANGES = [adds, writes_by_view, writes_by_data, writes_a_list, writes_to_an_alias]
READS: list[Callable[[torch.Tensor], Any]] = [
    lambda n: n[1] > 2, lambda n: n.max() > 2, lambda n: n.tolist()[1] - 2, lambda n: (n == 3).any(), lambda n: range(n[0].item()),
    lambda n: (n % 2 == 0).all(),
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_data_that_the_graph_changes_before_or_after_the_read(change: Callable[[torch.Tensor], None], backend: str) -> None:
    for read in READS:

        def before(x: torch.Tensor, n: torch.Tensor, read: Any = read) -> torch.Tensor:
            change(n)
            return x * 2 if read(n) else x * 3

        def after(x: torch.Tensor, n: torch.Tensor, read: Any = read) -> torch.Tensor:
            x = x * 2 if read(n) else x * 3
            change(n)
            return x + 1 if read(n) else x

        for program in (before, after):
            run(program, [(X, T(n)) for n in ([1, 2], [1, 2], [0, 3], [2, 1])], backend=backend)


def test_a_tensor_that_is_counted_up_in_each_call() -> None:
    n, ours = T([1, 5]), T([1, 5])

    def program(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        for _ in range(n[0].item()):
            x = x + 1
        n += 1
        return x

    compiled = framejit.compile(program, backend="eager")
    for _ in range(5):
        assert torch.equal(compiled(X, ours), program(X, n)) and torch.equal(ours, n)


@pytest.mark.parametrize("read", READS)
def test_memory_that_another_argument_has_too(read: Callable[[torch.Tensor], Any]) -> None:
    def program(x: torch.Tensor, other: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        other.add_(1)
        return x * 2 if read(n) else x * 3

    compiled = framejit.compile(program, backend="eager")
    for share in (False, True, False, True):
        pairs = []
        for _ in range(2):
            other = T([0, 1, 2, 3])
            pairs.append((other, other[1:3] if share else T([1, 2])))
        assert torch.equal(compiled(X, *pairs[0]), program(X, *pairs[1])), share


@pytest.mark.parametrize(
    "make",
    [
        lambda n: T([[n, 0], [1, 2]]).t(), lambda n: T([9, n, 9, 1])[1::2], lambda n: T([9, n]).expand(3, 2)[1:, 1], lambda n: T([n, n + 1], dtype=torch.uint8),
        lambda n: T([n, 2], dtype=torch.int16), lambda n: T([n, 2.0]), lambda n: torch._neg_view(T([-n, 2])), lambda n: T([n, 2.0], requires_grad=True),
        lambda n: nn.Parameter(T([float(n), 2.0])), lambda n: T([0, 0, n, 1]).view(2, 2)[1:], lambda n: T([n + 1j, 2]).real,
    ],
)  # fmt: skip
def test_tensors_of_all_kinds(make: Callable[[int], torch.Tensor]) -> None:
    def program(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        first = n.flatten()[0]
        x = x + 1 if first > 1 else x - 1
        x = x * 2 if n.detach().max() > 2 else x
        for _ in range(int(first)):
            x = x + 3
        return x + (1 if n.detach().sum().item() == 3 else 2) + (1 if first.item() else 0)

    compiled = framejit.compile(program, backend="eager")
    for n in (1, 1, 2, 3, 0, 1):
        assert torch.equal(compiled(X, make(n)), program(X, make(n))), n


def test_the_place_of_an_extreme_is_not_the_extreme() -> None:
    def program(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        most, place = n.max(0)
        return x + 1 if place > 0 else x - most

    run(program, [(X, T([n])) for n in (5, 3, 0, 7)])
    run(program, [(X, T([n, 4])) for n in (5, 3, 0, 7)])


def test_subclasses_are_not_read() -> None:
    class Doubled(torch.Tensor):
        def item(self) -> Any:
            return 2 * super().item()

    def program(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x + 1 if n[0].item() > 3 else x - 1

    compiled = framejit.compile(program, backend="eager")
    for n in (1, 2, 5):
        assert torch.equal(compiled(X, T([n, 1]).as_subclass(Doubled)), program(X, T([n, 1]).as_subclass(Doubled)))
        assert torch.equal(compiled(X, T([n, 1])), program(X, T([n, 1])))


def test_other_sizes() -> None:
    def program(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        x = x + 1 if n[-1] > 2 else x - 1
        return x * 2 if n.sum() > 6 else x * 3

    run(program, [(X, T(n)) for n in ([1, 2], [1, 2, 3], [1, 2, 3, 4], [4, 3, 2, 1, 0], [0, 0, 0, 0, 0, 3])])


# Limits.


def branches(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    for place in range(5):
        x = x + place if n[place] > 0 else x * place
    return x


def test_data_that_leads_to_too_many_entries_splits_the_graph() -> None:
    dice = random.Random(1)
    counts = run(branches, [(X, T([dice.randrange(2) for _ in range(5)])) for _ in range(60)], branches="break")
    assert counts[-1] == counts[-20] and counts[-1][0] <= 20 and counts[-1][1]
    assert framejit.statistics()["uncompiled"] == {} or not framejit.statistics()["uncompiled"]


def test_fullgraph_compiles_each_value() -> None:
    def program(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        for _ in range(n[0].item()):
            x = x + 1
        return x * 2 if (n % 3 == 0).any() else x

    counts = run(program, [(X, T([n, 1])) for n in (1, 2, 3, 1, 2, 3)], fullgraph=True)
    assert counts[-1] == (3, 0)


def test_recompiles_say_which_data_has_changed(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    def program(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x + 1 if (n % 3 == 0).any() and n[1].item() in (1, 2) else x

    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    compiled(X, T([3, 1]))
    framejit.set_logs("recompiles")
    try:
        compiled(X, T([3, 2]))
    finally:
        framejit.set_logs()
    text = caplog.text + "".join(capsys.readouterr())
    assert "the data of n: expected that it is [3, 1]; found [3, 2]" in text
    guards = framejit.explain(program)(X, T([3, 1])).entries[0].guards
    assert any("the data of n is [3, 1]" in guard for guard in guards)


def test_breaks_say_what_reading_from_another_device_costs() -> None:
    def by_truth(n: torch.Tensor) -> torch.Tensor:
        return n * 2 if n.max() > 3 else n

    def by_number(n: torch.Tensor) -> torch.Tensor:
        return n * 2 if n[0].item() > 3 else n

    for function in (by_truth, by_number):
        compiled = framejit.compile(lambda n, function=function: function(n.sin()), backend="eager", fullgraph=True, branches="break")
        with pytest.raises(framejit.Unsupported, match="read one from meta, Python waits in each call"):
            compiled(torch.ones(2, device="meta"))
        with pytest.raises(framejit.Unsupported) as raised:
            compiled(torch.ones(2))
        assert "waits" not in str(raised.value)


# Models.


class Rotary(nn.Module):
    """The positions in a vision encoder for images and videos of several sizes, as in Qwen2-VL."""

    def __init__(self, merge: int = 2, dim: int = 8) -> None:
        super().__init__()
        self.merge, self.proj = merge, nn.Linear(dim, dim)
        self.register_buffer("inverse", 1.0 / (10000.0 ** (torch.arange(0, dim, 2).float() / dim)), persistent=False)

    def forward(self, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        found = []
        for t, h, w in grid:
            down = torch.arange(h).unsqueeze(1).expand(-1, w)
            down = down.reshape(h // self.merge, self.merge, w // self.merge, self.merge).permute(0, 2, 1, 3).flatten()
            along = torch.arange(w).unsqueeze(0).expand(h, -1)
            along = along.reshape(h // self.merge, self.merge, w // self.merge, self.merge).permute(0, 2, 1, 3).flatten()
            found.append(torch.stack([down, along], dim=-1).repeat(t, 1))
        angles = torch.outer(torch.arange(grid[:, 1:].max(), dtype=self.inverse.dtype), self.inverse)
        return self.proj(x) + angles[torch.cat(found, dim=0)].flatten(1)


def test_numbers_for_parameters_and_operators_called_in_other_ways() -> None:
    weight = nn.Parameter(torch.ones(1, 3))

    def program(x: torch.Tensor, n: torch.Tensor) -> Any:
        found = weight.expand(n[0], 3).sum(), torch.ops.aten.expand(x[:1], [3]), torch.zeros(n[1]), torch.full((2,), n[0]), torch.narrow(x, 0, n[0], 2)
        return *found, x.roll(n[1]), torch.eye(n[0], n[1]), x.view(-1, n[0] + 2), torch.split(x, n[1] - 1)

    for backend in BACKENDS:
        run(program, [(X, T(n)) for n in ([2, 3], [2, 3], [4, 3], [6, 5], [1, 2], [2, 9])], backend=backend)


class Switched(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
        y = self.second(self.first(x).relu()).sin()
        return y * 2 if flag else y


@pytest.mark.parametrize("flag", [lambda n: n > 0, lambda n: n.clone(), lambda n: n, lambda n: n.bool().all()])
def test_layers_that_are_alike_but_for_the_data_of_their_arguments(flag: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """The trace of one layer isn't copied for the next one if the decision was by an argument's data."""
    torch.manual_seed(0)
    layers = nn.ModuleList([Switched() for _ in range(5)])

    def program(x: torch.Tensor, numbers: list[torch.Tensor]) -> torch.Tensor:
        for layer, number in zip(layers, numbers):
            x = layer(x, flag(number))
        return x

    for numbers in ([T([1]), T([0]), T([1]), T([1]), T([0])], list(T([1, 0, 0, 1, 0]))):
        compiled = framejit.compile(program, backend="eager")
        for _ in range(2):
            assert torch.equal(compiled(torch.ones(2, 4), numbers), program(torch.ones(2, 4), numbers))
            numbers = numbers[1:] + numbers[:1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_positions_of_patches_are_one_graph_for_all_images(backend: str) -> None:
    torch.manual_seed(0)
    model = Rotary()
    calls = []
    for grid in ([1, 4, 6], [1, 4, 6], [1, 8, 4], [1, 6, 6], [1, 10, 4], [1, 2, 12]):
        calls.append((torch.randn(grid[0] * grid[1] * grid[2], 8), T([grid])))
    framejit.reset()
    compiled = framejit.compile(model, backend=backend)
    for args in calls:
        expected = model(*args)
        torch.testing.assert_close(compiled(*args), expected)
        (gradient,) = torch.autograd.grad(compiled(*args).square().sum(), [model.proj.weight])
        (eager,) = torch.autograd.grad(expected.square().sum(), [model.proj.weight])
        torch.testing.assert_close(gradient, eager)
    statistics = framejit.statistics()
    assert statistics["graph_breaks"] == 0 and statistics["graphs"] <= 3
