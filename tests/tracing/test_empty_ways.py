"""Branches that skip rows of which there may be none: the graph has no branch, and what has a gradient, and what autograd has a record of, is as in eager."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import Comparison
from torch import nn
from undo import undoing

import framejit
from framejit.errors import Unsupported

BACKENDS = ("eager", "aot_eager")
CHOICES = [torch.tensor(chosen, dtype=torch.float32) for chosen in itertools.product(range(3), repeat=3)]
PROGRAMS: dict[Callable[..., Any], bool] = {}
"""Programs of two layers, a tensor, and the choice of a layer for each of its rows, which is 2 for none; and whether each of them is one graph."""


def whole(function: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS[function] = True
    return function


def split(function: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS[function] = False
    return function


def rows_of(chosen: torch.Tensor, index: int) -> torch.Tensor:
    return torch.where(chosen == index)[0]


@whole
def adds_rows(layers, x, chosen):
    out = torch.zeros_like(x)
    for index, layer in enumerate(layers):
        rows = rows_of(chosen, index)
        if rows.numel() == 0:
            continue
        out.index_add_(0, rows, layer(x[rows]))
    return out


@whole
def stores_rows(layers, x, chosen):
    out = x * 1
    for index, layer in enumerate(layers):
        rows = (chosen == index).nonzero().squeeze(-1)
        if len(rows):
            out[rows] += layer(x[rows]).relu_() * 2
    return out.sum(), out


@whole
def asks_for_the_shape(layers, x, chosen):
    out = torch.zeros_like(x)
    rows = rows_of(chosen, 0)
    if rows.shape[0] >= 1:
        out.index_copy_(0, rows, layers[0](x)[rows])
    return out


@whole
def one_layer_after_another(layers, x, chosen):
    first = adds_rows(layers, x, chosen)
    return adds_rows(layers, first, chosen) + 1, first


@whole
def returns_early(layers, x, chosen):
    def added(out, index):
        rows = rows_of(chosen, index)
        if not rows.numel():
            return
        out.index_add_(0, rows, layers[index](x[rows]))

    out = torch.zeros_like(x)
    added(out, 0)
    added(out, 1)
    return out, x + 1


@whole
def uses_what_nothing_else_uses(layers, x, chosen):
    out, hidden = torch.zeros_like(x), layers[1](x)
    rows = rows_of(chosen, 0)
    if rows.numel():
        out.index_add_(0, rows, layers[0](hidden[rows]))
    return out, hidden.detach()


@whole
def writes_to_a_view(layers, x, chosen):
    out = torch.zeros_like(x)
    part = out[:2]
    rows = rows_of(chosen[:2], 0)
    if rows.numel() != 0:
        part.index_add_(0, rows, layers[0](x[rows]))
    return out, part


@whole
def uses_one_layer_twice(layers, x, chosen):
    out = torch.zeros_like(x)
    for index in range(2):
        rows = rows_of(chosen, index)
        if rows.numel() > 0:
            out[rows] = layers[0](x[rows])
    return out * layers[1].bias


@whole
def branches_afterwards(layers, x, chosen):
    out = adds_rows(layers, x, chosen)
    if out.sum() > 0:
        out = out * 2
    return out


@whole
def selects_by_masks(layers, x, chosen):
    out = torch.zeros_like(x)
    for index, layer in enumerate(layers):
        mask = chosen == index
        if mask.any():
            out[mask] += layer(x[mask]) * x[mask, 0, None]
    return out


@torch.library.custom_op("framejit_empty_ways::any", mutates_args=())
def any_of_others(mask: torch.Tensor) -> torch.Tensor:
    """An operator that only has the name of torch's."""
    return mask.all()


@any_of_others.register_fake
def _(mask: torch.Tensor) -> torch.Tensor:
    return mask.new_empty(())


@split
def asks_another_operator_called_any(layers, x, chosen):
    out, mask = torch.zeros_like(x), chosen == 0
    if torch.ops.framejit_empty_ways.any(mask):
        out[mask] = layers[0](x[mask])
    return out


@whole
def reads_whether_a_mask_selects(layers, x, chosen):
    out = torch.zeros_like(x)
    for index, layer in enumerate(layers):
        mask = chosen == index
        if not mask.any().item():
            continue
        rows = mask.nonzero().flatten()
        out.index_add_(0, rows, layer(x[rows]))
    return out


@split
def changes_the_mask(layers, x, chosen):
    out, mask = torch.zeros_like(x), chosen == 0
    some = mask.any()
    mask.logical_not_()
    if some:
        out[mask] = layers[0](x[mask])
    return out


@split
def selects_by_another_mask(layers, x, chosen):
    out, masks = torch.zeros_like(x), torch.stack([chosen == 0, chosen == 1])
    if masks[0].any():
        out[masks[1]] = layers[0](x[masks[1]])
    return out


@split
def wants_two_rows(layers, x, chosen):
    out = torch.zeros_like(x)
    rows = rows_of(chosen, 0)
    if rows.numel() > 1:
        out.index_add_(0, rows, layers[0](x[rows]))
    return out


@split
def writes_something_else(layers, x, chosen):
    out = torch.zeros_like(x) + 1
    rows = rows_of(chosen, 0)
    if rows.numel():
        out.index_add_(0, rows, layers[0](x[rows]))
        out.mul_(2)
    return out


@split
def fails_without_rows(layers, x, chosen):
    out = torch.zeros_like(x)
    rows = rows_of(chosen, 0)
    if rows.numel():
        out.index_add_(0, rows, layers[0](x[rows]) - x[rows].median())
    return out


@split
def counts_calls(layers, x, chosen):
    out, calls = torch.zeros_like(x), []
    rows = rows_of(chosen, 0)
    if rows.numel():
        out.index_add_(0, rows, layers[0](x[rows]))
        calls.append(1)
    return out, torch.tensor(len(calls))


@split
def asks_for_the_record(layers, x, chosen):
    out = adds_rows(layers, x, chosen)
    return out * 2 if out.requires_grad else out + 1


@split
def asks_for_leaves(layers, x, chosen):
    out = adds_rows(layers, x, chosen)
    return out * 2 if out.is_leaf else out + 1


@split
def begins_to_record(layers, x, chosen):
    out = adds_rows(layers, x, chosen)
    out.requires_grad_()
    return out * 2


@split
def listens(layers, x, chosen):
    out = adds_rows(layers, x, chosen)
    try:
        out.register_hook(lambda gradient: gradient * 3)
    except RuntimeError:
        return out + 5
    return out * 2


@split
def asks_for_gradients(layers, x, chosen):
    out = adds_rows(layers, x, chosen)
    gradients = torch.autograd.grad(out.sum() + layers[0].bias.sum(), list(layers.parameters()), allow_unused=True)
    return out.detach(), torch.tensor([gradient is None for gradient in gradients])


@split
def changes_what_autograd_keeps(layers, x, chosen):
    out = layers[1](x)
    product = out * layers[0].bias
    rows = rows_of(chosen, 0)
    if rows.numel():
        out.index_add_(0, rows, layers[0](x[rows]))
    return out, product


@split
def nested(layers, x, chosen):
    out = torch.zeros_like(x)
    first, second = rows_of(chosen, 0), rows_of(chosen, 1)
    if first.numel():
        out.index_add_(0, first, layers[0](x[first]))
        if second.numel():
            out.index_add_(0, second, layers[1](x[second]))
    return out


def outcome(function: Callable[..., Any], layers: nn.Module, x: torch.Tensor, chosen: torch.Tensor, computed: bool = False) -> Any:
    """Return the results of a call, which of them autograd has recorded, and the gradients of a backward pass from all of them and from the last.
    `computed`: the tensor is no leaf."""
    found = []
    for only_last in (False, True):
        layers.zero_grad()
        given = x.detach().clone().requires_grad_(x.requires_grad)
        results = function(layers, given * 1 if computed else given, chosen)
        results = results if isinstance(results, tuple) else (results,)
        losses = [result.square().sum() for result in results[-1 if only_last else 0 :] if result.requires_grad]
        try:
            if losses:
                sum(losses).backward()
        except RuntimeError as error:
            found.append((type(error), str(error).partition(":")[0]))
            continue
        gradients = [None if leaf.grad is None else leaf.grad.clone() for leaf in (given, *layers.parameters())]
        found.append(([result.detach() for result in results], [(result.requires_grad, result.is_leaf) for result in results], gradients))
    return found


def compare(function: Callable[..., Any], x: torch.Tensor, choices: Any = CHOICES, computed: bool = False, **options: Any) -> dict[str, Any]:
    framejit.reset()
    torch.manual_seed(0)
    layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
    compiled = framejit.compile(function, **options)
    with framejit.config.replace(check="compile,guards"):
        for chosen in choices:
            Comparison().same(outcome(function, layers, x, chosen, computed), outcome(compiled, layers, x, chosen, computed), str(chosen))
    found = framejit.statistics()
    assert found["fallbacks"] == 0
    return found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("given", ["data", "leaf", "computed"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_gradients_and_records_are_those_of_eager(program, given, backend):
    found = compare(program, torch.randn(3, 4, requires_grad=given != "data"), computed=given == "computed", backend=backend)
    assert (found["graph_breaks"] == 0) is PROGRAMS[program]
    assert not PROGRAMS[program] or (found["graphs"], found["recompiles"]) == (1, 0)


@pytest.mark.only_eager(reason="names its backend itself")
@pytest.mark.parametrize("program", [adds_rows, stores_rows, one_layer_after_another], ids=lambda program: program.__name__)
def test_inductor(program):
    framejit.reset()
    torch.manual_seed(0)
    layers, x = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)]), torch.randn(3, 4)
    compiled = framejit.compile(program, backend="inductor")
    for chosen in CHOICES[::2]:
        for eager, ours in zip(outcome(program, layers, x, chosen), outcome(compiled, layers, x, chosen), strict=True):
            torch.testing.assert_close(ours[0], eager[0])
            assert ours[1] == eager[1] and [gradient is None for gradient in ours[2]] == [gradient is None for gradient in eager[2]]
            torch.testing.assert_close([found for found in ours[2] if found is not None], [found for found in eager[2] if found is not None])
    assert (framejit.statistics()["graphs"], framejit.statistics()["graph_breaks"]) == (1, 0)


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.router, self.load = nn.Linear(4, 3), nn.Buffer(torch.zeros(3))
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 4)) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.router(x).softmax(-1).topk(1, -1)
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            rows, place = torch.where(chosen == index)
            if rows.numel() == 0:
                continue
            out.index_add_(0, rows, expert(x[rows]) * weights[rows, place, None])
        self.load.add_(weights.detach().mean(0))
        return x + out


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_model_with_experts_trains_as_in_eager(backend):
    torch.manual_seed(0)
    framejit.reset()
    models = [nn.Sequential(Experts(), Experts())]
    models.append(copy.deepcopy(models[0]))
    functions = [models[0], framejit.compile(models[1], backend=backend, fullgraph=True)]
    optimizers = [torch.optim.Adam(model.parameters(), lr=0.1, weight_decay=0.1) for model in models]
    for step in range(6):
        x = torch.randn(2, 4)  # two rows, and three experts
        losses = []
        for function, optimizer in zip(functions, optimizers, strict=True):
            optimizer.zero_grad()
            losses.append(function(x).square().sum())
            losses[-1].backward()
            optimizer.step()
        Comparison().same([losses[0].detach(), *models[0].state_dict().values()], [losses[1].detach(), *models[1].state_dict().values()], f"step {step}")
    assert (framejit.statistics()["graphs"], framejit.statistics()["recompiles"]) == (1, 0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [adds_rows, selects_by_masks, asks_for_the_record], ids=lambda program: program.__name__)
def test_instructions_can_be_undone(program, backend):
    with undoing(0.3, program.__name__):
        compare(program, torch.randn(3, 4), CHOICES[::4], backend=backend)


@pytest.mark.only_eager(reason="names its backend itself")
def test_a_step_is_split_where_gradients_depend_on_data():
    def step(layers, x, chosen):
        adds_rows(layers, x, chosen).square().sum().backward()
        return torch.zeros(())

    layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
    with pytest.raises(Unsupported, match="backward.. of a tensor, where it depends on data which tensors get a gradient"):
        framejit.compile(step, backend="eager", fullgraph=True)(layers, torch.randn(3, 4), CHOICES[0])
    found = compare(step, torch.randn(3, 4), CHOICES[:13], backend="eager")
    assert found["graph_breaks"] == 1


@pytest.mark.only_eager(reason="names its backend itself")
@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_are_called_as_in_eager(backend):
    calls: list[list[Any]] = []

    def run(function: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(0)
        layers, found = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)]), []
        layers[0].weight.register_hook(lambda gradient: calls[-1].append("hook") or gradient + 1)
        layers[1].bias.register_post_accumulate_grad_hook(lambda leaf: calls[-1].append("accumulated"))
        x = torch.randn(3, 4)
        for chosen in CHOICES:
            calls.append([])
            found.append((outcome(function, layers, x, chosen), calls[-1]))
        return found

    framejit.reset()
    Comparison().same(run(adds_rows), run(framejit.compile(adds_rows, backend=backend)), backend)
    assert (framejit.statistics()["graph_breaks"] == 0) is (backend == "eager")


EXPERTS = {each.__name__: nn.Sequential(nn.Linear(4, 4), each()) for each in (nn.ELU, nn.GELU, nn.Hardswish, nn.Mish, nn.PReLU, nn.SiLU, nn.Softplus, nn.Tanh)}
EXPERTS["GLU"] = nn.Sequential(nn.Linear(4, 8), nn.GLU())
EXPERTS["norms"] = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4, bias=False), nn.RMSNorm(4), nn.GroupNorm(2, 4))
EXPERTS["convolution"] = nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 3, padding=1), nn.Flatten(), nn.Linear(8, 4), nn.Softmax(-1))


@pytest.mark.parametrize("expert", EXPERTS.values(), ids=EXPERTS.keys())
def test_what_experts_usually_compute_needs_no_branch(expert):
    def program(layers, x, chosen):
        out = torch.zeros_like(x)
        rows = rows_of(chosen, 0)
        if rows.numel():
            out.index_add_(0, rows, layers(x[rows]))
        return out

    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for chosen in (CHOICES[0], CHOICES[1], CHOICES[-1]):
        Comparison().same(outcome(program, expert, torch.ones(3, 4), chosen), outcome(compiled, expert, torch.ones(3, 4), chosen), str(chosen))


@pytest.mark.only_eager(reason="names its backend itself")
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_stored_in_a_buffer_has_the_gradients_of_eager(backend):
    def program(layers, x, chosen):
        layers.buffer.copy_(adds_rows(layers[:2], x, chosen))
        return x + 1

    def run(function: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(0)
        layers, found = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)]), []
        for chosen in CHOICES[::3]:
            layers.zero_grad()
            layers.buffer = nn.Buffer(torch.zeros(3, 4))
            function(layers, torch.ones(3, 4), chosen)
            if layers.buffer.requires_grad:
                layers.buffer.sum().backward()
            found.append([layers.buffer.requires_grad, *(None if leaf.grad is None else leaf.grad.clone() for leaf in layers.parameters())])
        return found

    framejit.reset()
    Comparison().same(run(program), run(framejit.compile(program, backend=backend)), backend)
    assert (framejit.statistics()["graph_breaks"] == 0) is (backend == "eager")


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_without_a_record_can_be_changed_as_in_eager(backend):
    layers, nobody = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)]), torch.full((3,), 2.0)
    framejit.reset()
    compiled = framejit.compile(adds_rows, backend=backend, fullgraph=True)
    for chosen in (torch.zeros(3), nobody):
        out = compiled(layers, torch.ones(3, 4), chosen)
    assert out.is_leaf and out.resize_(2, 2).shape == (2, 2) and out.requires_grad_().requires_grad


@pytest.mark.only_eager(reason="names its backend itself")
def test_a_break_says_why():
    layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
    for program, why in (
        (writes_something_else, "writes to a tensor by mul_, where gradients are recorded"),
        (fails_without_rows, "has a way that can't be computed without rows"),
        (wants_two_rows, "has a way that writes to a tensor from before it, where gradients are recorded"),
        (asks_for_the_record, "whether autograd has a record of a tensor that it changes depends on data"),
    ):
        with pytest.raises(Unsupported, match=why):
            framejit.compile(program, backend="eager", fullgraph=True)(layers, torch.randn(3, 4), CHOICES[0])
