"""With the backend eager, calls of modules that the trace has copied share one function; results, gradients, errors and lifetimes are those of eager."""

from __future__ import annotations

import copy
import traceback
import weakref
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn

import framejit
from framejit.backends import eager
from framejit.backends.regions import copied_calls
from tests.driver.test_kept import on_disk  # noqa: F401


class Counted:
    """The backend eager, which notes the number of operations of each graph that it compiles."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.backend = replace(eager.BACKEND, call=self.compile)

    def compile(self, gm: fx.GraphModule, inputs: Any) -> Any:
        self.sizes.append(sum(node.op.startswith("call") for node in gm.graph.nodes))
        return eager.compile_eager(gm, inputs)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x, scale):
        y = self.up(self.norm(x)).view(x.shape[0], 2, 8).transpose(0, 1).reshape(x.shape[0], 16)
        return x + self.down(F.gelu(y)) * scale


class Blocks(nn.Module):
    """Nine blocks. `seen`: the blocks whose results are returned as well."""

    def __init__(self, block: Any = Block, seen: tuple[int, ...] = (), count: int = 9) -> None:
        super().__init__()
        self.first, self.blocks, self.seen = nn.Linear(8, 8), nn.ModuleList([block() for _ in range(count)]), seen

    def forward(self, x, scale):
        x, found = self.first(x), []
        for index, block in enumerate(self.blocks):
            x = block(x, scale)
            if index in self.seen:
                found.append(x)
        return (x.sum(-1), *found)


class Drawing(Block):
    def forward(self, x, scale):
        return F.dropout(super().forward(x, scale), 0.5, True)


class Nested(nn.Module):
    """A block of two that are alike."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([Block(), Block()])

    def forward(self, x, scale):
        for part in self.parts:
            x = part(x, scale)
        return x


def shared() -> Blocks:
    model = Blocks()
    model.blocks[3] = model.blocks[1]
    return model


ARGS = torch.randn(4, 8), torch.full((1,), 0.5)


@pytest.mark.parametrize(
    "make, sizes",
    [
        (Blocks, 3), (lambda: Blocks(seen=(0, 4)), None), (lambda: Blocks(seen=tuple(range(9))), 3), (lambda: Blocks(Drawing), 3),
        (lambda: Blocks(Nested, count=5), 3), (shared, None),
    ],
    ids=["alike", "some results seen", "all results seen", "random numbers", "nested", "a shared block"],
)  # fmt: skip
@pytest.mark.parametrize("trains", [False, True])
def test_equal_calls_share_a_function(make, sizes, trains):
    counted, model = Counted(), make()
    compiled = framejit.compile(model, backend=counted.backend, fullgraph=True)
    for again in range(3):
        found = []
        for run in (model, compiled):
            torch.manual_seed(again)
            x = ARGS[0].clone().requires_grad_(trains)
            with torch.set_grad_enabled(trains):
                results = run(x, ARGS[1])
            gradients = torch.autograd.grad(sum(each.sum() for each in results), [x, *model.parameters()]) if trains else ()
            found.append([*results, *gradients])
        assert all(map(torch.equal, *found))
    assert sizes is None or len(counted.sizes) == sizes
    assert sum(counted.sizes) < 60


class Branching(Blocks):
    def forward(self, x, scale):
        x, *_ = super().forward(x, scale)
        return (torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)),)


@pytest.mark.parametrize(
    "model, options", [(Blocks(count=3), {}), (Blocks(), {"regions": False}), (Branching(), {})], ids=["too little repeats", "not asked for", "a graph inside"]
)
def test_a_graph_stays_whole(model, options):
    counted = Counted()
    compiled = framejit.compile(model, backend=counted.backend, fullgraph=True, **options)
    assert torch.equal(compiled(*ARGS)[0], model(*ARGS)[0]) and len(counted.sizes) == 1


class Choosing(Block):
    """Raises for rows that aren't there."""

    def forward(self, x, rows):
        return super().forward(x, x.new_ones(1)).index_select(0, rows)


def test_an_error_is_that_of_the_program():
    model, counted = Blocks(Choosing), Counted()
    compiled = framejit.compile(model, backend=counted.backend, fullgraph=True)
    assert torch.equal(compiled(ARGS[0], torch.arange(4))[0], model(ARGS[0], torch.arange(4))[0]) and len(counted.sizes) == 3
    lines = []
    for run in (model, compiled):
        with pytest.raises((IndexError, RuntimeError)) as raised:
            run(ARGS[0], torch.tensor([0, 1, 2, 9]))
        frames = traceback.extract_tb(raised.value.__traceback__)
        lines.append([(frame.name, frame.lineno) for frame in frames if frame.filename == __file__ and frame.name == "forward"])
    assert lines[0] == lines[1] and len(lines[0]) == 2


def test_another_model_of_the_class_has_its_own_parameters():
    model, other = Blocks(), Blocks()
    for each in (model, other):
        compiled = framejit.compile(each, backend="eager", fullgraph=True)
        assert torch.equal(compiled(*ARGS)[0], each(*ARGS)[0])
    compiled = framejit.compile(changed := copy.deepcopy(model), backend="eager", fullgraph=True)
    compiled(*ARGS)
    with torch.no_grad():
        changed.blocks[5].up.weight.mul_(2)
    assert torch.equal(compiled(*ARGS)[0], changed(*ARGS)[0])


def test_the_next_process_compiles_nothing(on_disk):  # noqa: F811
    model = Blocks()
    for frames in (1, 0):
        framejit.reset()
        compiled = framejit.compile(model, backend="eager", fullgraph=True)
        assert torch.equal(compiled(*ARGS)[0], model(*ARGS)[0]) and framejit.statistics()["frames"] == frames


class Value:
    """Stands for a tensor, and can be referred to weakly."""


def test_values_are_dropped_when_the_last_step_has_taken_them():
    alive: list[weakref.ref[Value]] = []

    def step(given: list[Any]) -> list[Any]:
        assert [reference() is not None for reference in alive] == [False] * (len(alive) - 1) + [True]
        given.clear()
        assert not any(reference() for reference in alive)
        made = Value()
        alive.append(weakref.ref(made))
        return [made]

    first = Value()
    alive.append(weakref.ref(first))
    run = copied_calls.in_turn(((step, (0,), (0,), 1, 2), (step, (1,), (1,), 2, 3)), 3, (2,))
    inputs = [first]
    del first
    assert run(inputs) == [alive[2]()] and inputs == []


def test_parts_that_differ_share_nothing():
    graph = fx.Graph()
    x, halves = graph.placeholder("x"), []
    for number in (1, True, 1):
        begin = value = graph.call_function(torch.relu, (x,))
        nodes = [begin]
        for _ in range(70):
            value = graph.call_function(torch.add, (value, number))
            nodes.append(value)
        halves.append(nodes)
    graph.output((halves[0][-1], halves[1][-1], halves[2][-1]))
    copies = [dict(zip(other, halves[0], strict=True)) for other in halves[1:]]
    parts = copied_calls.cut_at_copies(graph, copies)
    assert [part.first is parts[0] for part in parts] == [True, False, True]
