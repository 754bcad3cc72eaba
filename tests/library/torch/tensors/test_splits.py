"""Splits of tensors into parts whose sizes are numbers of a tensor."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from agreement import Comparison, agree, outcome

import framejit

WAYS = {
    "method": lambda x, sizes: x.split(sizes),
    "named": lambda x, sizes: x.split(split_size=sizes, dim=0),
    "function": lambda x, sizes: torch.split(x, sizes, dim=-2),
    "function, named": lambda x, sizes: torch.split(tensor=x, split_size_or_sections=tuple(sizes)),
    "sizes": lambda x, sizes: torch.split_with_sizes(x, sizes, 0),
    "sizes, named": lambda x, sizes: x.split_with_sizes(split_sizes=sizes),
}
COUNTS = ([1, 2, 3], [6, 0, 0], [0, 0, 6], [2, 2, 2])
BACKENDS = ("eager", "aot_eager")


def experts(counts, x, weights, split):
    """The items of each expert go through its own layer, as in a mixture of experts."""
    parts = split(x, counts.tolist())
    return torch.cat([F.linear(part, weight) for part, weight in zip(parts, weights, strict=True)]), [len(part) for part in parts], parts[1] * 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("way", WAYS)
def test_parts_of_sizes_that_depend_on_data(way, backend):
    framejit.reset()
    compiled = framejit.compile(experts, backend=backend)
    x, weights = torch.randn(6, 4, requires_grad=True), [torch.randn(3, 4, requires_grad=True) for _ in range(3)]
    for sizes in COUNTS:
        told = []
        for call in (compiled, experts):
            found = call(torch.tensor(sizes), x, weights, WAYS[way])
            told.append((found, torch.autograd.grad(found[0].sum() + found[2].square().sum(), [x, *weights])))
        Comparison().same(told[1], told[0])
    counts = framejit.statistics()
    assert (counts["graphs"], counts["graph_breaks"], counts["recompiles"]) == (1, 0, 0), counts


@pytest.mark.parametrize("sizes", [[1, 2, 4], [7, -1, 0], [1, 2, 2]])
def test_sizes_that_do_not_fit_raise_as_in_eager(sizes):
    framejit.reset()
    log = []

    def program(counts, x):
        log.append("begun")
        try:
            return [part.sum() for part in x.split(counts.tolist())]
        finally:
            log.append("ended")

    compiled = framejit.compile(program, backend="eager")
    x = torch.randn(6, 4)
    for given in ([1, 2, 3], sizes, [3, 2, 1]):
        told = []
        for call in (compiled, program):
            log.clear()
            kind, value = outcome(call, (torch.tensor(given), x), {})
            told.append((kind, str(value) if kind == "raised" else value, list(log)))
        Comparison().same(told[1], told[0])


def test_parts_are_views():
    def doubled(counts, x):
        for part in x.split(counts.tolist(), 1):
            part.mul_(2)
        first, *others = x.clone().split(counts.tolist(), dim=1)
        first.add_(1)
        return first, others, x.sum()

    framejit.reset()
    compiled = framejit.compile(doubled, backend="eager")
    for sizes in COUNTS:
        a, b = torch.ones(2, 6), torch.ones(2, 6)
        Comparison().same((doubled(torch.tensor(sizes), a), a), (compiled(torch.tensor(sizes), b), b))


def test_known_sizes_are_split_as_before():
    def parts(x, sizes):
        return x.split(2), x.split(sizes), torch.split(x, 4, 1), x.split(torch.tensor(3)), x.split_with_sizes([5, 1])

    framejit.reset()
    agree(parts, torch.randn(6, 4), [1, 5])
    for wrong in ([1, 4], [7], "six", [1.5, 4.5]):
        agree(lambda x: x.split(wrong), torch.randn(6, 4), fullgraph=False)
